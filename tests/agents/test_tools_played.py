"""Tools in an episode: hostile calls are recorded and the run goes on; what tools say is bounded and never trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from arena.agents import Completion, PolicyAgent, SampleRequest, ScoreRequest, from_list
from arena.agents.encoders import WordEncoder
from arena.engine import Engine, Plan
from arena.protocols import Protocol, parse_document
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
  - {from: step, to: result, when: step.tool != none, times: 9}
  - result -> step
  - step -> end
"""
TASK = Task("t", {"question": "Q?"})


def protocol(tool: str, limit: str = "") -> Protocol:
    name = tool.partition(":")[0]
    text = (
        STEPS.replace("TOOL", json.dumps(tool)).replace("NAME", name).replace(", LIMIT", f", {limit}" if limit else "")
    )
    return compile_document(parse_document(text))


def write_call(tool: str, **arguments: Any) -> str:
    return f"<call>{json.dumps({'tool': tool, 'arguments': arguments}, separators=(',', ':'))}</call>"


def play(compiled: Protocol, agent: Any, concurrency: int = 1, count: int = 1) -> list[Episode]:
    plans = [Plan(f"e{number}", TASK, {"agent": agent}) for number in range(count)]
    return Engine(compiled, {}, seed=0, concurrency=concurrency).play(plans)


BAD = {
    "monty": ["while True: pass", "[0] * 10 ** 12", "import socket", "print('x' * 10 ** 6)", "1 / 0"],
    "subprocess": [
        "while True: pass",
        "import os\nwhile True: os.fork()",
        "[0] * 10 ** 12",
        "open('/etc/passwd')",
        "import os\nos._exit(0)",
        "print('x' * 10 ** 6)",
    ],
}


@pytest.mark.parametrize("sandbox", BAD)
def test_hostile_programs_are_recorded_and_the_run_goes_on(sandbox: str) -> None:
    codes = [*BAD[sandbox], "1 + 1"]
    agent = from_list([*(write_call("python", code=code) for code in codes), "done"])
    compiled = protocol(f"python:sandbox={sandbox},seconds=1,memory=32")
    for episode in play(compiled, agent, concurrency=2, count=2):
        results = [turn for turn in episode.turns if turn.node == "result"]
        assert [turn.status.value for turn in results] == ["tool_error"] * len(BAD[sandbox]) + ["ok"]
        assert all(turn.error for turn in results[:-1])
        assert results[-1].text == "2"
        assert episode.stop == "end"


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
