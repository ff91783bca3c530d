"""What turns are paid: from transcripts and verdicts to one number a turn, by the ``rewards`` of a protocol.

Which turns a reward pays, and with what:

    pay         turns                                           with
    end         all that were kept                              the value at the end
    each_turn   all that were kept, up to the last judgement    the change of the value in their superstep
    next        all that were kept                              the value when a node that it names has run next
    turn        all, failed attempts included                   their own value

Candidates that lost (``best_of``) are paid nothing. Several rewards add up; a turn whose value is not known (an
undecidable verdict, a node that has not run, a value that is none) earns None as a whole, never a guess. A role that
has claimed an answer is paid for the one that it argues at the end. Rewards that add up to 0 (``zero_sum``) are paid to
all of their roles or to none: to none too where a verdict pays and two of them argue the same answer in the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from arena.court import Court
from arena.judges.types import AnyJudge
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError, NumericalError
from arena.protocols.records import Episode, Task, Turn, Verdict
from arena.reward_terms import OWN, Key, Terms
from arena.values import VERDICT_FIELDS, turn_value, verdict_value

__all__ = ["Payoff", "pay", "returns"]

_ZERO = 1e-6

Moment: TypeAlias = int
"""A point in an episode: how many turns there were."""


@dataclass(slots=True)
class Payoff:
    """What an episode was worth."""

    rewards: list[float | None]
    """One number a turn; None where nothing pays the turn, or where what it is worth is not known."""
    verdict: Verdict | None
    """What the first reward that speaks of a verdict rests on; where none does, or it was not given, the episode's."""
    final: list[float] = field(default_factory=list)
    """The part of each turn's reward that is a value at the end, which all kept turns of a role are paid and which it
    earns once. Empty: nothing is."""


def pay(protocol: Protocol, judge: AnyJudge, episodes: Sequence[Episode], tasks: Mapping[str, Task]) -> list[Payoff]:
    """Reward of every turn, penalties for bad quotes included. Turns of a failed episode earn None.

    Judge nodes that are not nested are asked, all episodes in one batch; other verdicts are taken as stored.

    Args:
        protocol: that was played.
        judge: for every judge node.
        episodes: played with the judge or without (`Engine(judging=False)`), or read from a store.
        tasks: by id.

    Raises:
        ConfigError: the protocol has no rewards, or they speak of a label that a task does not have.
        NumericalError: values that must add up to 0 do not.
    """
    return [account.settle() for account in _accounts(protocol, judge, episodes, tasks)]


def returns(
    protocol: Protocol, judge: AnyJudge, episodes: Sequence[Episode], tasks: Mapping[str, Task]
) -> list[dict[str, float | None]]:
    """What each paid seat wins in an episode, whether it came to speak or not: a value that is paid at the end counts
    once, others for every turn that they pay. None where some of it is not known, or the episode has failed.

    Arguments and errors as of `pay`.
    """
    return [account.returned() for account in _accounts(protocol, judge, episodes, tasks)]


def _accounts(
    protocol: Protocol, judge: AnyJudge, episodes: Sequence[Episode], tasks: Mapping[str, Task]
) -> list[_Account]:
    if not protocol.rewards:
        raise ConfigError(f"protocol '{protocol.name}' has no 'rewards:', so nothing can be trained on it")
    court = Court(protocol, judge)
    terms = [Terms(protocol, reward) for reward in protocol.rewards]
    accounts = [_Account(terms, court, episode, tasks[episode.task]) for episode in episodes]
    for account in accounts:
        account.summon()
    court.decide()
    return accounts


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _penalty(terms: Terms, turn: Turn) -> float:
    """For quotes that are not verified or not new."""
    bad = terms.reward.bad_quote
    return bad * sum(not quote.good for quote in turn.quotes) if bad else 0.0


class _Account:
    """What the turns of one episode earn."""

    def __init__(self, terms: Sequence[Terms], court: Court, episode: Episode, task: Task) -> None:
        self.terms = terms
        self.court = court
        self.episode = episode
        self.task = task
        turns = episode.turns
        self.end: Moment = len(turns)
        self.after: dict[int, Moment] = {turn.superstep: turn.index + 1 for turn in turns}
        """Superstep -> the moment when it was done."""
        self.before: dict[int, Moment] = dict(zip(self.after, (0, *self.after.values()), strict=False))
        self._values: dict[tuple[int, Moment], dict[str, float | None]] = {}

    def summon(self) -> None:
        """Tell the court what will be asked."""
        for terms in () if self.episode.error is not None else self.terms:
            prefix = terms.reward.pay == "each_turn"
            for moment in self._moments(terms):
                if terms.reward.verdict is not None:
                    self.court.summon(self.episode, self.task, terms.reward.verdict, moment, prefix=prefix)
                for name in terms.judges:
                    self.court.summon(self.episode, self.task, name, moment, prefix=False)

    def _moments(self, terms: Terms) -> Iterator[Moment]:
        """When the values of a reward are needed."""
        if terms.reward.pay == "each_turn":
            yield from (0, *self.after.values())
        elif terms.reward.pay == "next":
            yield from sorted(
                {moment for turn in self.episode.turns if (moment := self._next(terms, turn)) is not None}
            )
        else:
            yield self.end

    def settle(self) -> Payoff:
        """Add up."""
        rests = next((terms for terms in self.terms if terms.reward.verdict is not None), None)
        verdict = self.episode.verdict
        if self.episode.error is not None:
            return Payoff([None] * self.end, verdict)
        if rests is not None:
            verdict = self._verdict(rests, self.end) or verdict
        rewards = [self._earned(turn) for turn in self.episode.turns]
        if not any(terms.reward.pay == "end" for terms in self.terms):
            return Payoff(rewards, verdict)
        pairs = zip(self.episode.turns, rewards, strict=True)
        return Payoff(rewards, verdict, [0.0 if reward is None else self._final(turn) for turn, reward in pairs])

    def returned(self) -> dict[str, float | None]:
        """Add up by seat."""
        seats = dict.fromkeys(seat for terms in self.terms for seat in terms.reward.values)
        return {seat: None if self.episode.error is not None else self._won(seat) for seat in seats}

    def _won(self, seat: str) -> float | None:
        total = 0.0
        for number, terms in enumerate(self.terms):
            if seat not in terms.reward.values:
                continue
            turns = [turn for turn in self.episode.turns_of(seat) if self._applies(terms, turn)]
            once = terms.reward.pay == "end"
            found = [self._values_at(number, self.end)[seat]] if once else [self._paid(number, terms, t) for t in turns]
            known = [value for value in found if value is not None]
            if len(known) < len(found):
                return None
            total += sum(known) + sum(_penalty(terms, turn) for turn in turns)
        return total

    def _earned(self, turn: Turn) -> float | None:
        total: float | None = None
        for number, terms in enumerate(self.terms):
            if not self._applies(terms, turn):
                continue
            value = self._paid(number, terms, turn)
            if value is None:
                return None
            value += _penalty(terms, turn)
            total = value if total is None else total + value
        return total

    def _final(self, turn: Turn) -> float:
        """The part of a known reward that is paid at the end."""
        numbers = [n for n, terms in enumerate(self.terms) if terms.reward.pay == "end" and self._applies(terms, turn)]
        return sum(self._values_at(number, self.end)[turn.role] or 0.0 for number in numbers)

    def _applies(self, terms: Terms, turn: Turn) -> bool:
        """Whether a reward pays a turn at all."""
        reward = terms.reward
        if turn.role not in reward.values:
            return False
        if reward.pay == "turn":
            lost = not turn.kept and self.court.protocol.nodes[turn.node].best_of is not None
            return not lost and terms.own[turn.role] <= OWN.keys() | turn.fields.keys()
        if not turn.kept:
            return False
        if reward.pay == "next":
            return self._next(terms, turn) is not None
        if reward.pay == "each_turn" and reward.verdict is not None:
            runs = self.court.runs(self.episode, reward.verdict)
            return not runs or self.after[turn.superstep] <= runs[-1]
        return True

    def _paid(self, number: int, terms: Terms, turn: Turn) -> float | None:
        if terms.reward.pay == "turn":
            return self._value(terms, turn.role, self.end, turn)
        if terms.reward.pay == "next":
            moment = self._next(terms, turn)
            assert moment is not None  # `_applies`
            return self._values_at(number, moment)[turn.role]
        if terms.reward.pay == "end":
            return self._values_at(number, self.end)[turn.role]
        before = self._values_at(number, self.before[turn.superstep])[turn.role]
        after = self._values_at(number, self.after[turn.superstep])[turn.role]
        return None if before is None or after is None else after - before

    def _next(self, terms: Terms, turn: Turn) -> Moment | None:
        """When one of the nodes that the reward speaks of has run after the superstep of a turn."""
        watched = terms.watched.get(turn.role, ())
        runs = [count for name in watched for count in self.episode.judged.get(name, ()) if count > turn.index]
        later = (
            self.after[other.superstep]
            for other in self.episode.turns[turn.index + 1 :]
            if other.kept and other.node in watched and other.superstep > turn.superstep
        )
        return min([*runs, *itertools.islice(later, 1)], default=None)

    def _values_at(self, number: int, moment: Moment) -> dict[str, float | None]:
        """Seat -> what the reward is worth to it at a moment."""
        if (number, moment) not in self._values:
            terms = self.terms[number]
            values = {seat: self._value(terms, seat, moment) for seat in terms.reward.values}
            if terms.reward.zero_sum:
                values = self._balanced(terms, values)
            self._values[number, moment] = values
        return self._values[number, moment]

    def _balanced(self, terms: Terms, values: dict[str, float | None]) -> dict[str, float | None]:
        """The values of roles that are paid zero-sum: those of all of them, or of none.

        Raises:
            NumericalError: they do not add up to 0.
        """
        known = [value for value in values.values() if value is not None]
        if len(known) < len(values) or self._argue_the_same(terms):
            return dict.fromkeys(values)
        if not abs(math.fsum(known)) <= _ZERO:
            raise NumericalError(
                f"protocol '{self.court.protocol.name}', episode '{self.episode.key}': the rewards must add up to 0 "
                f"(zero_sum), but are {values}"
            )
        return values

    def _argue_the_same(self, terms: Terms) -> bool:
        """Whether two of the seats that a verdict pays have come to argue the same answer: it decides nothing then."""
        if terms.reward.verdict is None or terms.own_answers:
            return False
        paid = [self.episode.sides[terms.seats[seat]] for seat in terms.reward.values if seat in terms.seats]
        return len(set(paid)) < len(paid)

    def _value(self, terms: Terms, seat: str, moment: Moment, turn: Turn | None = None) -> float | None:
        """What a reward is worth to a seat; None where it is not known."""
        expression = terms.reward.values[seat]
        names: dict[str, Any] = {}
        for name in expression.names:
            if name in terms.keys:
                names[name] = self._told(terms.keys[name], moment)
            elif turn is not None:
                names[name] = OWN[name](turn) if name in OWN else turn.fields[name]
            else:
                verdict = self._verdict(terms, moment)
                if verdict is None or not verdict.decidable:
                    return None
                names[name] = self._worth(name, verdict, terms, seat)
                if names[name] is None:
                    return None
        value = expression(names)
        # A field that may be anything may hold a text or an endless number: like none, it is no pay.
        return float(value) if isinstance(value, int | float) and _is_finite(value) else None

    def _verdict(self, terms: Terms, moment: Moment) -> Verdict | None:
        assert terms.reward.verdict is not None  # the file is refused where a value speaks of none
        return self.court.verdict(self.episode, terms.reward.verdict, moment, prefix=terms.reward.pay == "each_turn")

    def _worth(self, name: str, verdict: Verdict, terms: Terms, seat: str) -> float | None:
        """``margin``, ``p``, ``won``, ``correct`` or ``score`` for a seat; None where the judge does not say."""
        uses = f"rewards.value of '{self.court.protocol.name}' uses '{name}', "
        side = terms.seats.get(seat)
        label = None if terms.own_answers else self.task.label
        if name == "score" and (side is None or not verdict.logps):
            return verdict.worth(None)
        if not verdict.logps:
            return None
        if name == "correct" and label is None:
            raise ConfigError(f"{uses}which task '{self.task.id}' does not have (no label)")
        if side is None and name == "correct":
            return verdict.score(label or 0)
        if side is None:
            raise ConfigError(f"{uses}but '{seat}' argues no answer")
        answer = side if terms.own_answers else self.episode.sides[side]
        if name == "correct":
            return float(answer == label)
        if name == "score":
            return verdict.worth(answer)
        if name == "margin":
            return verdict.margin(answer)
        return math.exp(verdict.logps[answer]) if name == "p" else verdict.score(answer)

    def _told(self, key: Key, moment: Moment) -> Any:
        """What a node, or each of a group, said by then."""
        values = tuple(self._field(name, key.field, moment) for name in key.nodes)
        return values if key.grouped else values[0]

    def _field(self, name: str, field: str, moment: Moment) -> Any:
        episode, node = self.episode, self.court.protocol.nodes[name]
        last = next((turn for turn in reversed(episode.turns[:moment]) if turn.node == name and turn.kept), None)
        if last is not None and (field in last.fields or not node.gives_verdict):
            return turn_value(last, field)
        if field == "visits":
            return sum(count <= moment for count in episode.judged.get(name, ()))
        if not node.gives_verdict or field not in VERDICT_FIELDS:
            return 0 if field == "words" else None
        verdict = self.court.verdict(episode, name, moment, prefix=False)
        seats = self.court.protocol.seats
        return None if verdict is None else verdict_value(verdict, field, self.task.answers, episode.sides, seats)
