"""What a model backend promises."""

from __future__ import annotations

import math
from collections.abc import Sequence

from arena.agents.types import Backend, Completion, SampleRequest, ScoreRequest
from arena.protocols.records import Sampling

__all__ = ["check_backend"]


def check_backend(
    backend: Backend, contexts: Sequence[Sequence[int]], *, max_tokens: int = 4, tolerance: float = 1e-4
) -> None:
    """Check what `arena.agents.types.Backend` promises.

    Every request has one answer, in order, that does not depend on the others or on their order; log-probs fit the ids
    and agree with `Backend.score`; temperature 0 and ``allowed`` are obeyed.

    Args:
        backend: to be checked; its model should not be trained meanwhile.
        contexts: at least two contexts, best of different lengths.
        max_tokens: of each request.
        tolerance: largest difference of log-probs in nats that counts as equal.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    assert len(contexts) >= 2, "give at least two contexts"
    assert backend.policy, "a backend has a policy name"
    plain = Sampling()
    requests = [
        SampleRequest(list(ids), seed, plain, max_tokens) for seed, ids in enumerate([*contexts, *contexts], start=11)
    ]
    answers = list(backend.generate(requests))
    assert len(answers) == len(requests), f"{len(requests)} requests had {len(answers)} answers"
    for answer in answers:
        _check_completion(answer, max_tokens)
    _check_same(answers, backend.generate(requests), tolerance, "the same requests again")
    _check_same(answers, list(backend.generate(requests[::-1]))[::-1], tolerance, "the requests in reverse order")
    alone = [backend.generate([request])[0] for request in requests]
    _check_same(answers, alone, tolerance, "each request alone")

    scores = backend.score([ScoreRequest(r.ids, [a.ids]) for r, a in zip(requests, answers, strict=True)])
    for answer, (score,) in zip(answers, scores, strict=True):
        told = sum(answer.logps)
        assert abs(told - score) <= tolerance, f"log-probs of a draw sum to {told}, but score() says {score}"

    greedy = [SampleRequest(list(contexts[0]), seed, Sampling(temperature=0.0), 1) for seed in range(4)]
    taken = {answer.ids for answer in backend.generate(greedy)}
    assert len(taken) == 1, f"temperature 0 drew different ids with different seeds: {taken}"

    some = sorted({answer.ids[0] for answer in answers} | {0, 1})[:2]
    choices = [SampleRequest(list(contexts[1]), seed, plain, 1, allowed=some) for seed in range(8)]
    (weights,) = backend.score([ScoreRequest(list(contexts[1]), [[token] for token in some])])
    total = math.log(sum(math.exp(weight - max(weights)) for weight in weights)) + max(weights)
    for answer in backend.generate(choices):
        assert answer.ids[0] in some, f"drew {answer.ids[0]} where only {some} were allowed"
        expected = weights[some.index(answer.ids[0])] - total
        assert abs(answer.logps[0] - expected) <= tolerance, (
            f"the log-prob {answer.logps[0]} of a constrained draw is not {expected} as the constraint makes it"
        )


def _check_completion(answer: Completion, max_tokens: int) -> None:
    assert 1 <= len(answer.ids) <= max_tokens, f"{len(answer.ids)} ids were drawn, at most {max_tokens} were asked for"
    assert len(answer.logps) == len(answer.ids), f"{len(answer.ids)} ids have {len(answer.logps)} log-probs"
    assert all(math.isfinite(logp) and logp <= 1e-9 for logp in answer.logps), f"not log-probs: {answer.logps}"
    assert answer.finish in {"stop", "length"}, f"finish is {answer.finish!r}"
    assert answer.finish == "stop" or len(answer.ids) == max_tokens, (
        "a turn that did not stop is shorter than its limit"
    )


def _check_same(first: Sequence[Completion], second: Sequence[Completion], tolerance: float, how: str) -> None:
    for one, two in zip(first, second, strict=True):
        ends = (one.finish, two.finish)
        assert one.ids == two.ids, f"{how}: {two.ids} instead of {one.ids}"
        assert ends[0] == ends[1], f"{how}: finish {ends[1]} instead of {ends[0]}"
        gap = max((abs(a - b) for a, b in zip(one.logps, two.logps, strict=True)), default=0.0)
        assert gap <= tolerance, f"{how}: log-probs differ by {gap}"
