"""Agents, judges and programs that answer in their own time: nothing but time depends on it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections.abc import Sequence

import pytest

from arena.agents import Act, Ask, ScriptedAgent
from arena.engine import Engine, Plan
from arena.judges import JudgeView
from arena.protocols.errors import BackendError
from arena.protocols.programs import CHECKS, Call, Outcome
from arena.protocols.records import Episode, Task, Verdict, VerdictStatus
from arena.records_json import to_json

DEBATE = """
name: small
params: {rounds: 2}
roles:
  pro: {argues: 0, sees: [question, answers], opening: "Argue for {{ answer }}."}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  a: {speak: pro, prompt: "Round {{ round }}.", output: {regex: "(?P<n>[0-9]+) .*"}, retries: 2}
  b: {speak: con, best_of: {n: 3, by: judge, value: p}}
  verdict: {judge: judge}
edges:
  - start -> a & b
  - {from: a & b, to: a & b, times: rounds - 1}
  - a & b -> verdict -> end
"""
TASKS = [Task(f"t{i}", {"question": f"Q{i}?", "answers": ("x", "y")}, i % 2) for i in range(3)]


def say(ask: Ask) -> Act:
    good = ask.role == "con" or ask.seed % 3
    return Act(f"{ask.seed % 100 if good else 'no'} {ask.role} heard {len(ask.heard)}")


class Later:
    """Answers after a number of turns of the loop that a seed decides: replies come in any order."""

    def __init__(self, name: str, order: int) -> None:
        self.name = name
        self.rng = random.Random(order)

    async def answer(self, ask: Ask) -> Act:
        for _ in range(self.rng.randrange(30)):
            await asyncio.sleep(0)
        return say(ask)


class LaterJudge:
    name = "later"
    sees_label = False

    def __init__(self, order: int) -> None:
        self.rng = random.Random(order)

    async def verdict(self, view: JudgeView) -> Verdict:
        for _ in range(self.rng.randrange(30)):
            await asyncio.sleep(0)
        return decide(view)


def decide(view: JudgeView) -> Verdict:
    share = sum(len(said.text) for said in view.statements) % 7 / 8 + 0.05
    if share == 0.5:
        return Verdict(VerdictStatus.TIE, "later", (-0.6931471805599453,) * 2)
    import math

    return Verdict(VerdictStatus.SCORED, "later", (math.log(share), math.log(1 - share)))


class NowJudge:
    name = "later"
    sees_label = False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return [decide(view) for view in views]


def texts(episodes: Sequence[Episode]) -> list[str]:
    return [to_json(episode) for episode in episodes]


def plans(count: int, pro: object, con: object) -> list[Plan]:
    return [Plan(f"e{i}", TASKS[i % 3], {"pro": pro, "con": con}) for i in range(count)]  # type: ignore[dict-item]


@pytest.fixture
def now() -> tuple[ScriptedAgent, ScriptedAgent]:
    return ScriptedAgent("p", say), ScriptedAgent("c", say)


@pytest.mark.parametrize("concurrency", [1, 8, 512])
def test_the_result_depends_neither_on_concurrency_nor_on_the_order_of_replies(compiled, now, concurrency: int) -> None:
    protocol = compiled(DEBATE)
    expected = texts(Engine(protocol, NowJudge(), seed=3).play(plans(20, *now)))
    assert any('"attempt":1' in line for line in expected)
    for order in range(3):
        engine = Engine(protocol, LaterJudge(order), seed=3, concurrency=concurrency)
        assert texts(engine.play(plans(20, Later("p", order), Later("c", order + 1)))) == expected
    mixed = Engine(protocol, LaterJudge(7), seed=3, concurrency=concurrency)
    assert texts(mixed.play(plans(20, now[0], Later("c", 5)))) == expected


def test_what_was_interrupted_is_played_the_same_again(compiled, now) -> None:
    class Stuck(Later):
        async def answer(self, ask: Ask) -> Act:
            if ask.episode > "e4":
                await asyncio.Event().wait()
            return await super().answer(ask)

    protocol = compiled(DEBATE)
    expected = {e.key: to_json(e) for e in Engine(protocol, NowJudge(), seed=3).play(plans(10, *now))}
    stream = Engine(protocol, LaterJudge(1), seed=3).stream(plans(10, Stuck("p", 1), Later("c", 2)))
    first = []
    while len(first) < 5:
        first += next(stream)
    stream.close()
    done = {episode.key for episode in first}
    left = [plan for plan in plans(10, Later("p", 3), Later("c", 4)) if plan.key not in done]
    rest = Engine(protocol, LaterJudge(2), seed=3).play(left)
    assert {episode.key: to_json(episode) for episode in [*first, *rest]} == expected


ONE = """
name: one
roles: {a: {sees: [question]}}
nodes: {say: {speak: a}, again: {speak: a}}
edges: [start -> say -> again -> end]
"""


def test_a_slow_episode_delays_nobody(compiled) -> None:
    opened = False

    class Slow:
        name = "slow"

        async def answer(self, ask: Ask) -> Act:
            while ask.episode == "e0" and not opened:
                await asyncio.sleep(0)
            return Act("x")

    finished: list[str] = []
    agent = Slow()
    for batch in Engine(compiled(ONE), {}, seed=0).stream([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(5)]):
        finished += [episode.key for episode in batch]
        opened = len(finished) == 4
    assert sorted(finished[:4]) == ["e1", "e2", "e3", "e4"]
    assert finished[4] == "e0"


def test_one_failure_is_recorded_and_the_others_go_on(compiled) -> None:
    class Failing:
        name = "failing"

        async def answer(self, ask: Ask) -> Act:
            if ask.episode == "e1":
                raise TimeoutError("no reply")
            return Act("x")

    agent = Failing()
    episodes = Engine(compiled(ONE), {}, seed=0).play([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(3)])
    assert [episode.stop for episode in episodes] == ["end", "error", "end"]
    assert episodes[1].error == "say: TimeoutError: no reply"


def test_a_judge_that_fails_gives_a_verdict_that_says_so(compiled, now) -> None:
    class Failing:
        name = "failing"
        sees_label = False

        async def verdict(self, view: JudgeView) -> Verdict:
            raise BackendError("down")

    text = DEBATE.replace("best_of: {n: 3, by: judge, value: p}", "prompt: Now.")
    (episode,) = Engine(compiled(text), Failing(), seed=3).play(plans(1, *now))
    assert episode.verdicts["verdict"].status is VerdictStatus.TRANSPORT
    assert episode.verdicts["verdict"].evidence["reason"] == "BackendError: down"


class Waiting:
    """Waits for ever; knows who was cancelled."""

    name = "waiting"

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.cancelled: list[str] = []

    async def answer(self, ask: Ask) -> Act:
        if ask.episode in ("e0", "e1"):
            return Act("x")
        self.asked.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(ask.episode)
            raise
        raise AssertionError


def test_a_bug_in_an_agent_ends_the_run_at_once_with_its_cause(compiled, caplog) -> None:
    class Buggy(Waiting):
        async def answer(self, ask: Ask) -> Act:
            if ask.episode == "e4":
                raise KeyError("mine")
            return await super().answer(ask)

    agent = Buggy()
    with pytest.raises(KeyError, match="mine"):
        Engine(compiled(ONE), {}, seed=0).play([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(5)])
    assert sorted(agent.cancelled) == ["e2", "e3"]
    assert not caplog.records


def test_ctrl_c_in_an_agent_cancels_the_others(compiled, caplog) -> None:
    class Interrupted(Waiting):
        async def answer(self, ask: Ask) -> Act:
            if ask.episode == "e4":
                signal.raise_signal(signal.SIGINT)
            return await super().answer(ask)

    agent = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        Engine(compiled(ONE), {}, seed=0).play([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(5)])
    assert sorted(agent.cancelled) == ["e2", "e3"]
    assert not caplog.records


def test_ctrl_c_while_all_wait_loses_nothing_that_has_finished(compiled, caplog) -> None:
    finished: list[str] = []

    class Waited(Waiting):
        async def answer(self, ask: Ask) -> Act:
            if ask.episode == "e4":
                while len(finished) < 2:
                    await asyncio.sleep(0)
                threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
            return await super().answer(ask)

    agent = Waited()
    stream = Engine(compiled(ONE), {}, seed=0).stream([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(5)])
    interrupted = False
    try:
        for batch in stream:
            finished += [episode.key for episode in batch]
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted
    assert sorted(finished) == ["e0", "e1"]
    assert {"e2", "e3"} <= set(agent.cancelled)
    assert not caplog.records


def test_what_finished_just_before_ctrl_c_is_handed_out_before_the_interruption_goes_on(compiled) -> None:
    class Interrupted(Waiting):
        async def answer(self, ask: Ask) -> Act:
            if ask.episode == "e2":
                # The loop runs what is ready before it comes back to this: e0 and e1 have ended by then.
                for _ in range(50):
                    await asyncio.sleep(0)
                signal.raise_signal(signal.SIGINT)
            return await super().answer(ask)

    agent = Interrupted()
    stream = Engine(compiled(ONE), {}, seed=0).stream([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(3)])
    assert sorted(episode.key for episode in next(stream)) == ["e0", "e1"]
    with pytest.raises(KeyboardInterrupt):
        next(stream)


def test_it_runs_inside_of_a_running_loop_as_well(compiled, now) -> None:
    protocol = compiled(DEBATE)
    expected = texts(Engine(protocol, NowJudge(), seed=3).play(plans(5, *now)))

    async def notebook() -> list[Episode]:
        return Engine(protocol, LaterJudge(0), seed=3).play(plans(5, Later("p", 0), Later("c", 1)))

    assert texts(asyncio.run(notebook())) == expected


def test_slow_programs_run_side_by_side_in_threads(compiled) -> None:
    both = threading.Barrier(2, timeout=30)

    class Slow:
        name = "slow"
        slow = True

        def check(self, calls: Sequence[Call]) -> list[Outcome]:
            both.wait()
            return [Outcome("seen", fields={"passed": True, "score": 1.0}) for _ in calls]

    CHECKS.register("side-by-side", summary="for this test")(Slow)
    try:
        text = """
name: checked
roles: {a: {sees: [question]}, checker: {check: side-by-side}}
nodes: {say: {speak: a}, check: {verify: checker, of: say}}
edges: [start -> say -> check -> end]
"""
        agent = ScriptedAgent("a", lambda ask: "x")
        episodes = Engine(compiled(text), {}, seed=0).play([Plan(f"e{i}", TASKS[0], {"a": agent}) for i in range(2)])
    finally:
        del CHECKS._entries["side-by-side"]
    assert [episode.turns[1].fields["passed"] for episode in episodes] == [True, True]
