"""Who gained more, when some of the gains were cancelled? Twelve records in random order, six about each person.

``ann+7`` counts, ``ann~9`` was cancelled. A person has four gains that count and two that do not, all of them
different digits; sums that tie are drawn again. Hard questions tempt who does not look at the marks: what was cancelled
of the one who gained less is more than any two records of the other. Every seed gives fresh questions, and the training
and the test stream of one seed share none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena.agents.sampling import uniforms
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Ask
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["CANCELLED", "PEOPLE", "STRIKE", "demonstrator", "records"]

PEOPLE = ("ann", "bob")
CANCELLED = "~"
"""Stands in a cancelled record in place of the plus sign."""
STRIKE = "strike"
"""The move that says of a quote that it was cancelled."""

_VALUES = range(1, 10)
_VALID, _VOID = 4, 2
_WIDEST = 8  # hard questions with wider margins are too rare to be drawn


def records(*, seed: int = 0, train: int = 8192, test: int = 1000, hard: float = 0.7, margin: int = 2) -> TaskSet:
    """Fresh questions from ``seed``.

    Fields: ``question``, ``answers`` (in random order), ``evidence`` (twelve words), and of these ``valid`` (eight) and
    ``cancelled`` (four).

    Args:
        seed: of all draws.
        train: count of training tasks.
        test: count of held-out tasks.
        hard: share of hard questions: the cancelled gains of the one who gained less come to more than the two largest
            records of the other.
        margin: least difference of what counts. Where it is small, the one who gained less may still have the two
            largest records that count, and win an honest debate of two quotes a side: with margin 2 in 5 % of the
            questions that are not hard (10 % end even), with margin 5 in 0.5 % (4 %).

    Raises:
        ConfigError: a count, share or margin out of range.
    """
    check_counts(train=train, test=test)
    if not 0 <= hard <= 1:
        raise ConfigError(f"hard={hard} of records is a share: from 0 to 1")
    if not 1 <= margin <= _WIDEST:
        raise ConfigError(f"margin={margin} of records is a difference of gains: from 1 to {_WIDEST}")
    rng = random.Random(f"records {seed}")
    seen: set[tuple[str, ...]] = set()
    made = [_task(f"records-{seed}-{index}", rng, hard, margin, seen) for index in range(test + train)]
    name = f"records:seed={seed},train={train},test={test},hard={hard:g},margin={margin}"
    return TaskSet(name, made[test:], made[:test])  # test first: it stays the same whatever the training size


def _task(key: str, rng: random.Random, hard: float, margin: int, seen: set[tuple[str, ...]]) -> Task:
    tempting = rng.random() < hard
    while True:
        drawn = [rng.sample(_VALUES, _VALID + _VOID) for _ in PEOPLE]
        gains = [sum(values[:_VALID]) for values in drawn]
        winner = int(gains[1] > gains[0])
        if abs(gains[0] - gains[1]) < margin or (tempting and not _tempts(drawn, winner)):
            continue
        valid = [f"{who}+{value}" for who, own in zip(PEOPLE, drawn, strict=True) for value in own[:_VALID]]
        void = [f"{who}{CANCELLED}{value}" for who, own in zip(PEOPLE, drawn, strict=True) for value in own[_VALID:]]
        evidence = rng.sample([*valid, *void], len(valid) + len(void))
        if tuple(evidence) not in seen:
            break
    seen.add(tuple(evidence))
    answers = rng.sample(PEOPLE, 2)
    fields = {
        "question": "Who gained more?",
        "answers": tuple(answers),
        "evidence": tuple(evidence),
        "valid": tuple(valid),
        "cancelled": tuple(void),
    }
    return Task(key, fields, label=answers.index(PEOPLE[winner]))


def _tempts(drawn: Sequence[Sequence[int]], winner: int) -> bool:
    best = sum(sorted(drawn[winner])[-2:])
    return sum(drawn[1 - winner][_VALID:]) > best


def demonstrator(
    *, true: float = 0.9, void: float = 0.2, strike: float = 0.75, name: str = "records-demonstrator"
) -> ScriptedAgent:
    """An agent that shows what claims, quotes and strikes look like, with faults: what a warm start imitates.

    It plays `cross-examination` and the open games of evidence. Where it may choose an answer it claims one, where it
    may strike it says whether the last quote was cancelled, and else it quotes a new record of whom it argues for.

    Args:
        true: how often a claim is right.
        void: how often a quote is a cancelled one.
        strike: how often it is right on whether the last quote was cancelled.
        name: key in lineups and ratings.
    """

    def say(ask: Ask) -> str:
        draw = uniforms([ask.seed] * 3, [0, 1, 2]).tolist()
        evidence: Sequence[str] = ask.task.fields["evidence"]
        if STRIKE in ask.options:
            quoted = next(turn.text for turn in reversed(ask.heard) if turn.quotes)
            right = (CANCELLED in quoted) == (draw[0] < strike)
            return STRIKE if right else next(option for option in ask.options if option != STRIKE)
        if ask.options:
            gains = {who: sum(int(word[-1]) for word in evidence if word.startswith(f"{who}+")) for who in ask.options}
            best, *others = sorted(ask.options, key=lambda who: -gains[who])
            return best if draw[0] < true else others[0]
        if ask.answer is None:
            raise ConfigError(f"'{name}' speaks for an answer; node '{ask.node}' gives it none")
        used = {quote.text for turn in ask.heard for quote in turn.quotes}
        own = [word for word in evidence if word.startswith(ask.task.answers[ask.answer]) and word not in used]
        wanted = [word for word in own if (CANCELLED in word) == (draw[1] < void)] or own
        return wanted[int(draw[2] * len(wanted))] if wanted else ""

    return ScriptedAgent(name, say)
