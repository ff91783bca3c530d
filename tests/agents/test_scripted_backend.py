"""A backend that is a program keeps the promises of one, with probabilities that a test can work out by hand."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Any

import pytest

from arena.agents import AsyncPolicyAgent, AsyncScriptedBackend, SampleRequest, ScriptedBackend, agent_for
from arena.agents.encoders import WordEncoder
from arena.agents.types import Ask, Context, Message, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling, Task, TurnStatus
from arena.testing import check_backend

END = 9


def by_parity(context: tuple[int, ...], drawn: tuple[int, ...]) -> dict[int, float]:
    """After an even number of ids 1 is three times as likely as 0, after an odd one it ends in half of all cases."""
    return {0: 1.0, 1: 3.0} if (len(context) + len(drawn)) % 2 == 0 else {0: 0.25, 1: 0.25, END: 0.5}


def made(**more: Any) -> ScriptedBackend:
    return ScriptedBackend("p@v1", by_parity, (END,), **more)


def test_it_passes_the_public_conformance_check() -> None:
    check_backend(made(), [[1, 2], [1, 2, 3, 4, 5], [1]])
    check_backend(AsyncScriptedBackend("p@v1", by_parity, (END,)), [[1, 2], [1, 2, 3]])


def test_draws_have_the_probabilities_of_the_function() -> None:
    answers = made().generate([SampleRequest([0, 0], seed, Sampling(), 1) for seed in range(4000)])
    counts = Counter(answer.ids for answer in answers)
    # Three standard deviations of a binomial with p = 3/4 are 82.
    assert abs(counts[1,] - 3000) < 82
    assert all(answer.logps == pytest.approx([math.log([0.25, 0.75][answer.ids[0]])]) for answer in answers)


def test_a_score_is_the_product_along_the_way() -> None:
    (scores,) = made().score([ScoreRequest([0, 0], [[1, END], [0, 1, 1], [], [7]])])
    assert scores == pytest.approx([math.log(0.75 * 0.5), math.log(0.25 * 0.25 * 0.75), 0.0, -math.inf])


def test_a_turn_ends_at_the_end_token_or_at_the_limit() -> None:
    for answer in made().generate([SampleRequest([0], seed, Sampling(), 3) for seed in range(20)]):
        assert (answer.finish == "stop") == (answer.ids[-1] == END)
        assert END not in answer.ids[:-1]
        assert answer.finish == "stop" or len(answer.ids) == 3


def test_nothing_that_may_be_drawn_is_a_fault_of_the_model() -> None:
    with pytest.raises(BackendError, match=r"gives none of \[7\] a probability"):
        made().generate([SampleRequest([0], 0, Sampling(), 1, allowed=[7])])


def test_it_says_one_of_some_texts() -> None:
    encoder = WordEncoder(["yes", "no", "so"])
    backend = ScriptedBackend.saying(["yes so", "yes", "no"], encoder)
    answers = backend.generate([SampleRequest([1], seed, Sampling(), 5) for seed in range(30)])
    assert {encoder.decode(answer.ids) for answer in answers} == {"yes so", "yes", "no"}
    assert [sum(answer.logps) for answer in answers] == pytest.approx([math.log(1 / 3)] * 30)
    with pytest.raises(ConfigError, match="nothing to say"):
        ScriptedBackend.saying([], encoder)


def ask(seed: int) -> Ask:
    return Ask("e", "n", "r", 0, seed, Context(), [Message("prompt", "yes")], None, None, Task("t", {}), ())


def test_faults_are_injected_where_told_and_take_no_other_turn_along() -> None:
    encoder = WordEncoder(["yes", "no"])
    backend = ScriptedBackend.saying(["no"], encoder, fails=lambda request: request.seed == 1)
    acts = agent_for(backend, encoder, "p").act([ask(0), ask(1), ask(2)])
    assert [act.status for act in acts] == [TurnStatus.OK, TurnStatus.TRANSPORT, TurnStatus.OK]
    assert acts[1].error == "injected failure of 'scripted@v0' at seed 1"


def test_requests_that_take_their_time_wait_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        while len(waited) < 2:  # ends only if the other one waits as well
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)

    monkeypatch.setattr("arena.agents.scripted_backend.asyncio.sleep", sleep)
    backend = AsyncScriptedBackend("p@v1", by_parity, (END,), seconds=2.5)
    agent = agent_for(backend, WordEncoder(["a", "b", "c", "d", "e", "yes", "f"]), "p")
    assert isinstance(agent, AsyncPolicyAgent)

    async def both() -> list[Any]:
        return await asyncio.gather(agent.answer(ask(1)), agent.answer(ask(2)))

    assert all(act.tokens is not None for act in asyncio.run(both()))
    assert waited == [2.5, 2.5]
