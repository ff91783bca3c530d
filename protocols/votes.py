"""Counting what several turns chose, and combining what several judges decided.

An abstention (a turn or a judge that gave nothing) is one of those asked: a majority is more than half of all, but the
distribution is over the votes that were cast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from arena.protocols.functions import read_number, tally, value_key
from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["combine_verdicts", "count_votes", "vote_verdict"]

Rule = Literal["plurality", "majority", "unanimous", "mean"]

_EVEN = 1e-9
"""Probabilities that differ by less lead together."""


def count_votes(values: Sequence[Any], rule: Rule) -> dict[str, Any]:
    """Count choices; None is an abstention (a turn that could not be read).

    Returns:
        ``choice``: the winner (``plurality``: the most votes; ``majority``: more than half of all values, abstentions
        among them; ``unanimous``: all), None without one or where two lead; ``votes``: how many the most frequent has;
        ``share``: of those cast; ``cast``: how many did not abstain; ``agreed``: none abstained and all chose the same.
        For ``mean``, of numbers and texts that are numbers (whatever else is an abstention): ``value`` instead of
        ``choice``, None if nobody gave a number.
    """
    if rule == "mean":
        values = [read_number(value) for value in values]
    counts = tally(values)
    cast, ranked = counts.total(), counts.most_common(2)
    votes = ranked[0][1] if ranked else 0
    found = {
        "votes": votes,
        "share": votes / cast if cast else 0.0,
        "cast": cast,
        "agreed": bool(values) and votes == len(values),
    }
    if rule == "mean":
        return {"value": sum(value for value in values if value is not None) / cast if cast else None, **found}
    winner = None
    if _wins([count for _, count in ranked], len(values), rule):
        winner = next(value for value in values if value is not None and value_key(value) == ranked[0][0])
    return {"choice": winner, **found}


def _wins(ranked: Sequence[int], asked: int, rule: Rule) -> bool:
    """Whether the first of ``ranked`` (counts of votes, largest first) wins among ``asked`` votes."""
    most, second = (*ranked, 0, 0)[:2]
    if rule == "majority":
        return 2 * most > asked
    if rule == "unanimous":
        return most == asked > 0
    return most > second


def vote_verdict(indices: Sequence[int | None], answers: int, rule: Rule, name: str) -> Verdict:
    """The verdict of a vote on the answers: a distribution by share of the votes that were cast.

    Args:
        indices: which answer each vote is for; None is an abstention.
        answers: how many answers there are.
        rule: what decides, as in `count_votes`; ``mean`` is ``plurality`` here.
        name: of the instrument.

    Returns:
        ``scored`` with a winner; ``tie`` where two lead and the most votes would decide; ``abstain`` where nobody chose
        or the rule finds no winner. An answer without votes has log-probability -inf.
    """
    votes = [sum(index == answer for index in indices) for answer in range(answers)]
    cast = sum(votes)
    evidence = {"rule": rule, "votes": votes, "abstained": len(indices) - cast}
    ranked = sorted(votes, reverse=True)
    if cast and _wins(ranked, len(indices), rule):
        status = VerdictStatus.SCORED
    elif cast and rule in ("plurality", "mean"):
        status = VerdictStatus.TIE
    else:
        return Verdict(VerdictStatus.ABSTAIN, name, evidence=evidence)
    return Verdict(status, name, tuple(_log(count / cast) for count in votes), evidence=evidence)


def combine_verdicts(verdicts: Sequence[Verdict | None], rule: Rule, name: str) -> Verdict:
    """One verdict of several: ``mean`` averages the probabilities of the decidable ones, the others count choices.

    A judge that has not run (None), is not decidable or finds a tie abstains where choices are counted.
    """
    decided = [verdict for verdict in verdicts if verdict is not None and verdict.decidable]
    statuses = ["none" if verdict is None else str(verdict.status) for verdict in verdicts]
    if not decided:
        return Verdict(VerdictStatus.ABSTAIN, name, evidence={"rule": rule, "statuses": statuses})
    answers = len(decided[0].logps)
    scores = _mean_scores(decided)
    if not answers:
        # Scores of one thing can be averaged; there is nothing to vote on.
        status = VerdictStatus.SCORED if rule == "mean" and scores else VerdictStatus.ABSTAIN
        kept = scores if status is VerdictStatus.SCORED else ()
        return Verdict(status, name, evidence={"rule": rule, "statuses": statuses}, scores=kept)
    if rule == "mean":
        combined = _mean_verdict([verdict.logps for verdict in decided], name)
        combined.scores = scores
    else:
        choices = [verdict.choice if verdict is not None else None for verdict in verdicts]
        combined = vote_verdict(choices, answers, rule, name)
    combined.evidence = {"rule": rule, **combined.evidence, "statuses": statuses}
    return combined


def _mean_scores(verdicts: Sequence[Verdict]) -> tuple[float, ...]:
    """What the answers are worth on average; empty where a judge does not say."""
    scores = [verdict.scores for verdict in verdicts]
    if not all(scores) or len({*map(len, scores)}) > 1:
        return ()
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


def _mean_verdict(logps: Sequence[Sequence[float]], name: str) -> Verdict:
    means = [sum(math.exp(logp) for logp in column) / len(logps) for column in zip(*logps, strict=True)]
    best, second = sorted(means, reverse=True)[:2] if len(means) > 1 else (means[0], 0.0)
    status = VerdictStatus.TIE if best - second < _EVEN else VerdictStatus.SCORED
    return Verdict(status, name, tuple(map(_log, means)))


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf
