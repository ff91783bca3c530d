"""Tools in an episode: hostile calls are recorded and the run goes on; what tools say is bounded and never trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from arena.agents import Ask, Completion, PolicyAgent, SampleRequest, ScoreRequest, ScriptedAgent, from_list
from arena.agents.encoders import WordEncoder
from arena.engine import Engine, Plan
from arena.protocols import Protocol, load_protocol, parse_document
from arena.protocols.errors import BackendError, SourceError
from arena.protocols.loader import compile_document
from arena.protocols.records import Episode, Task
from arena.training.sequences import sequences_of

STEPS = """
name: steps
fields: [question]
roles:
  agent: {sees: [question], opening: "{{ question }}"}
  tools: {tools: [TOOL]}
nodes:
  step: {speak: agent, output: {call: [NAME], optional: true}}
  result: {tool: tools, of: step, LIMIT}
edges:
  - start -> step
  - {from: step, to: result, when: step.tool != none, times: TIMES}
  - result -> step
  - step -> end
"""
TASK = Task("t", {"question": "Q?"})


def protocol(tool: str, limit: str = "", times: int = 9) -> Protocol:
    name = tool.partition(":")[0]
    text = STEPS.replace("TOOL", json.dumps(tool)).replace("NAME", name).replace("TIMES", str(times))
    text = text.replace(", LIMIT", f", {limit}" if limit else "")
    return compile_document(parse_document(text))


def write_call(tool: str, **arguments: Any) -> str:
    return f"<call>{json.dumps({'tool': tool, 'arguments': arguments}, separators=(',', ':'))}</call>"


def play(compiled: Protocol, agent: Any, concurrency: int = 1, count: int = 1) -> list[Episode]:
    plans = [Plan(f"e{number}", TASK, {"agent": agent}) for number in range(count)]
    return Engine(compiled, {}, seed=0, concurrency=concurrency).play(plans)


BAD = {
    "fork bomb": "import os\nwhile True: os.fork()",
    "memory bomb": "x = [0]\nwhile True:\n    x = x + x",
    "endless loop": "while True: pass",
    "file access": "open('/etc/passwd')",
    "network access": "import socket\nsocket.create_connection(('127.0.0.1', 1))",
    "huge output": "print('x' * 10 ** 6)",
    "exit": "import sys\nsys.exit(0)",
    "hard exit": "import os\nos._exit(0)",
    # The first process of a namespace is deaf to itself, so that it would end well: it must not end.
    "signal to itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\nwhile True: pass",
    "signal to its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass",
    "signal to all": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "deaf to signals": ("import signal\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"),
}


@pytest.mark.parametrize("sandbox", ["monty", "subprocess"])
def test_hostile_programs_are_recorded_and_the_run_goes_on(sandbox: str) -> None:
    """All of them in one episode, two episodes at once; each is followed by the next one, and all by a good one."""
    codes = [*BAD.values(), "1 + 1"]
    agent = from_list([*(write_call("python", code=code) for code in codes), "done"])
    compiled = protocol(f"python:sandbox={sandbox},seconds=1,memory=32", times=len(codes))
    for episode in play(compiled, agent, concurrency=2, count=2):
        results = [turn for turn in episode.turns if turn.node == "result"]
        ended = {name: turn.status.value for name, turn in zip(BAD, results, strict=False)}
        assert ended == dict.fromkeys(BAD, "tool_error")
        assert all(turn.error for turn in results[:-1])
        assert (results[-1].status.value, results[-1].text) == ("ok", "2")
        assert episode.stop == "end"


SECRET_TESTS = ("assert f(271828) == 314159", "assert f(-161803) == 577215")


def test_the_writer_of_a_program_is_never_shown_its_tests() -> None:
    """It fails, repairs and fails again; whatever it is asked, heard and given of the task holds no piece of a test."""
    told: list[str] = []

    def write(ask: Ask) -> str:
        told.append(repr((ask.new, ask.task, ask.heard)))
        return "```python\ndef f(x):\n    raise ValueError(f'the input was {x}')\n```"

    task = Task("t", {"prompt": "Write f.", "tests": SECRET_TESTS})
    plan = Plan("e", task, {"coder": ScriptedAgent("coder", write)})
    (episode,) = Engine(load_protocol("program-synthesis"), {}, seed=0).play([plan])
    checks = [turn for turn in episode.turns if turn.node == "result"]
    assert [turn.fields["results"] for turn in checks] == [["ValueError"] * 2] * 4
    assert len(told) == 4
    assert not [secret for secret in ("271828", "314159", "161803", "577215", "assert") if secret in "".join(told)]


@pytest.mark.parametrize(
    ("limit", "status", "text", "heard"),
    [
        ("limit: {tokens: 2}", "over_limit", "one two", True),
        ("limit: {words: 3}", "over_limit", "one two three", True),
        ("limit: {words: 4}", "ok", "one two three four", True),
        ("limit: {words: 3, over: refuse}", "refused", "one two three four", False),
    ],
)
def test_what_a_tool_says_is_bounded_by_its_node(limit: str, status: str, text: str, heard: bool) -> None:
    agent = from_list([write_call("python", code="print('one two three four')"), "done"])
    (episode,) = play(protocol("python", limit), agent)
    assert (episode.turns[1].status.value, episode.turns[1].text) == (status, text)
    assert (episode.turns[1].audience is None) is heard


def test_a_failed_call_that_is_cut_is_a_failed_call() -> None:
    agent = from_list([write_call("python", code="1 / 0"), "done"])
    (episode,) = play(protocol("python", "limit: {words: 2}"), agent)
    assert (episode.turns[1].status.value, episode.turns[1].text) == ("tool_error", "ZeroDivisionError (line")


def test_a_tool_has_no_thinking_to_limit() -> None:
    with pytest.raises(SourceError, match=r"limit.thinking: a program has no hidden thinking: leave it out"):
        protocol("python", "limit: {thinking: 2}")


SUM = write_call("calculator", expression="2+3")
WORDS = WordEncoder(["Q?", "tools:", "5", "It", "is", SUM])


class Backend:
    """Draws a call at first, and then words."""

    policy = "p@v0"

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        return [self._draw(list(request.ids)) for request in requests]

    def _draw(self, ids: list[int]) -> Completion:
        called = WORDS.encode(SUM)[0]
        words = WORDS.encode("It is 5") if called in ids else [called]
        drawn = (*words, WORDS.eos_id)
        return Completion(drawn, (-0.5,) * len(drawn), "stop")

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        raise BackendError("not used")


def test_what_a_tool_says_is_context_and_never_trained() -> None:
    (episode,) = play(protocol("calculator"), PolicyAgent("p", Backend(), WORDS, max_tokens=8))
    assert [(turn.node, turn.text) for turn in episode.turns] == [("step", SUM), ("result", "5"), ("step", "It is 5")]
    (sequence,) = sequences_of(episode, {"agent", "tools"})
    stream = [WORDS.decode([token]) for token in sequence.ids]
    trained = [stream[place] for place in sequence.positions]
    end = WORDS.decode([WORDS.eos_id])
    assert trained == [SUM, end, "It", "is", "5", end]
    # The tool's own words stand between both turns of the speaker, and are no part of what is trained.
    told = stream.index("tools:")
    assert stream[told : told + 2] == ["tools:", "5"]
    assert not {told, told + 1} & set(sequence.positions)
    assert sequence.turns == [0, 0, 1, 1, 1, 1]
    assert sequences_of(episode, {"tools"}) == []
