"""What a protocol promises when it is played: by agents that say random things of the right form.

Every text, said or made up for a task field, holds a mark of its own, so that it can be told who was shown what.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arena.agents.random_agent import random_agent
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Act, Ask
from arena.engine import Engine, Plan
from arena.judges.types import JudgeView
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.graph import Node
from arena.protocols.lengths import count_words
from arena.protocols.records import Episode, Task, Turn, TurnStatus, Verdict, VerdictStatus
from arena.records_json import from_json, to_json
from arena.rewards import pay
from arena.seeds import derive_seed
from arena.values import TOKEN

__all__ = ["check_protocol", "made_up_tasks"]

_MARK = re.compile(r"\b[mf][0-9a-f]{16}\b")


def check_protocol(protocol: Protocol | str | Path, tasks: Sequence[Task] | None = None, *, seed: int = 0) -> None:
    """Play a protocol with agents that say random things of the right form, and check what it promises.

    Every episode ends with a reason and without an error, and is the same at any concurrency; nobody is shown a turn
    that is not for it, a turn of the same superstep, or a field that it does not see; limits are kept; rewards, if
    there are some, can be paid.

    Args:
        protocol: compiled, or the name or file of one.
        tasks: to play on; absent: `made_up_tasks`. Give some where fields need a special form (tests of a program).
        seed: other random things are said with another seed.

    Raises:
        AssertionError: a promise is broken; the message says which.
        UserError: the file has faults, or the protocol cannot be played on the tasks.
    """
    if not isinstance(protocol, Protocol):
        protocol = load_protocol(protocol)
    tasks = list(made_up_tasks(protocol, seed=seed) if tasks is None else tasks)
    alone, together = _Trial(protocol, tasks, seed), _Trial(protocol, tasks, seed)
    alone.play(concurrency=1)
    together.play(concurrency=7)
    for one, two in zip(alone.episodes, together.episodes, strict=True):
        assert to_json(one) == to_json(two), f"episode '{one.key}' is another one at concurrency 7 than at 1"
    together.check()


def made_up_tasks(protocol: Protocol, count: int = 4, *, seed: int = 0) -> list[Task]:
    """Tasks with all that a protocol asks for; every second one lacks the optional fields.

    Fields that are quoted whole, chosen or drawn from, and ``answers``, are lists of texts; fields that are computed
    with are the numbers 1 to 3; others are texts with a mark of their own.
    """
    lists, numbers = _lists(protocol), _numbers(protocol)
    tasks = []
    for number in range(count):
        fields: dict[str, Any] = {}
        names = (*protocol.required_fields, *(protocol.optional_fields if number % 2 == 0 else ()))
        for place, name in enumerate(names):
            if name in numbers:
                fields[name] = (number + place) % 3 + 1
            elif name in lists:
                count = max(2, len(protocol.seats)) if name == "answers" else 4
                fields[name] = [f"{name} {number} {item}" for item in range(count)]
            else:
                mark = f"f{derive_seed(seed, number, name):016x}"
                fields[name] = f"{mark} is what the {name} of this task says about the matter"
        tasks.append(Task(f"task-{number}", fields, label=0))
    return tasks


def _lists(protocol: Protocol) -> set[str]:
    nodes = protocol.nodes.values()
    return {
        "answers",
        *(node.quote.field for node in nodes if node.quote and node.quote.form == "whole"),
        *(node.output.choices_field for node in nodes if node.output and node.output.choices_field),
        *(source for node in nodes for source in node.draws.values()),
    }


def _numbers(protocol: Protocol) -> set[str]:
    return {name for node in protocol.nodes.values() for value in node.computes.values() for name in value.names}


class _Trial:
    """Some episodes, and all that was asked for in them."""

    def __init__(self, protocol: Protocol, tasks: Sequence[Task], seed: int) -> None:
        self.protocol = protocol
        self.tasks = {task.id: task for task in tasks}
        self.seed = seed
        self.asks: list[tuple[Ask, list[str]]] = []
        """Each with the texts that it showed."""
        self.views: list[tuple[str, JudgeView]] = []
        """Each with the seat of the judge."""
        self.episodes: list[Episode] = []

    def play(self, concurrency: int) -> None:
        """Every task twice: the same agents have more than one thing to say."""
        agent = _Watched(self.asks)
        lineup = dict.fromkeys(self.protocol.speakers, agent)
        plans = [Plan(f"{task.id}/{again}", task, lineup) for task in self.tasks.values() for again in range(2)]
        judges = {seat: _Dice(seat, self.views) for seat in self.protocol.judging_seats}
        self.episodes = Engine(self.protocol, judges, seed=self.seed, concurrency=concurrency).play(plans)

    def check(self) -> None:
        """All promises but that of concurrency."""
        by_key = {episode.key: episode for episode in self.episodes}
        for episode in self.episodes:
            self._check_end(episode)
            for turn in episode.turns:
                self._check_limits(episode, turn)
        for ask, texts in self.asks:
            self._check_ask(by_key[ask.episode], ask, texts)
        for seat, view in self.views:
            self._check_view(by_key[view.key], seat, view)
        if self.protocol.rewards:
            self._check_pay()

    def _check_end(self, episode: Episode) -> None:
        assert episode.error is None, f"episode '{episode.key}' ended in an error: {episode.error}"
        assert episode.stop, f"episode '{episode.key}' ended without a reason"
        assert [turn.index for turn in episode.turns] == list(range(len(episode.turns))), "turns are counted wrongly"
        steps = [turn.superstep for turn in episode.turns]
        assert steps == sorted(steps), f"episode '{episode.key}': supersteps are mixed"

    def _check_limits(self, episode: Episode, turn: Turn) -> None:
        node = self.protocol.nodes[turn.node]
        if turn.status is TurnStatus.REFUSED or not node.speaks:
            return
        what = f"episode '{episode.key}': turn {turn.index} at '{turn.node}' has"
        words, tokens = count_words(turn.text), len(TOKEN.findall(turn.text))
        assert node.max_words is None or words <= node.max_words, f"{what} {words} words, {node.max_words} are allowed"
        assert node.max_tokens is None or tokens <= node.max_tokens, (
            f"{what} {tokens} tokens, {node.max_tokens} are allowed"
        )

    def _check_pay(self) -> None:
        stored = [from_json(to_json(episode)) for episode in self.episodes]
        now, later = (pay(self.protocol, _Dice("", []), episodes, self.tasks) for episodes in (self.episodes, stored))
        for episode, one, two in zip(stored, now, later, strict=True):
            assert one.rewards == two.rewards, f"episode '{episode.key}' is paid otherwise when it was stored"

    def _check_ask(self, episode: Episode, ask: Ask, texts: Sequence[str]) -> None:
        node = self.protocol.nodes[ask.node]
        where = f"episode '{ask.episode}': '{ask.role}' was shown at '{ask.node}'"
        unseen = sorted(set(ask.task.fields) - set(node.role.sees))
        assert not unseen, f"{where} the field '{unseen[0]}'"
        assert ask.task.label is None, f"{where} the label"
        step = next(turn.superstep for turn in episode.turns if (turn.node, turn.visit) == (ask.node, ask.visit))
        own = [turn for turn in episode.turns if turn.role == ask.role and turn.superstep <= step]
        known = [turn for turn in episode.turns if turn.superstep < step and _reads(ask.role, turn)]
        for turn in ask.heard:
            heard = turn.role == ask.role or _reads(ask.role, turn)
            assert heard, f"{where} turn {turn.index} of '{turn.role}', which is not for it"
        self._check_marks(where, episode, ask.role, texts, [*own, *known])

    def _check_view(self, episode: Episode, seat: str, view: JudgeView) -> None:
        where = f"episode '{view.key}': judge '{seat}' was shown"
        sees = {name for role in self._roles(seat) for name in role.sees}
        unseen = sorted(set(view.fields) - sees)
        assert not unseen, f"{where} the field '{unseen[0]}'"
        rated = {name for node in self.protocol.nodes.values() for name in _rated(node, seat)}
        known = [turn for turn in episode.turns if _reads(seat, turn) or turn.role == seat or turn.node in rated]
        texts = [
            view.question,
            *view.answers,
            *map(str, view.fields.values()),
            *(said.text for said in view.statements),
        ]
        self._check_marks(where, episode, seat, texts, known)

    def _check_marks(
        self, where: str, episode: Episode, seat: str, texts: Sequence[str], known: Sequence[Turn]
    ) -> None:
        """Whether marks in what a seat was shown come from fields that it sees and turns that it knows."""
        fields = self.tasks[episode.task].fields
        names = {name for role in self._roles(seat) for name in role.sees}
        allowed = {mark for name in names for mark in _MARK.findall(str(fields.get(name, "")))}
        allowed |= {mark for turn in known for mark in _MARK.findall(f"{turn.text} {dict(turn.fields)}")}
        strangers = sorted({mark for text in texts for mark in _MARK.findall(text)} - allowed)
        if strangers:
            raise AssertionError(f"{where} {self._origin(episode, strangers[0])}")

    def _origin(self, episode: Episode, mark: str) -> str:
        for name, value in self.tasks[episode.task].fields.items():
            if mark in str(value):
                return f"the field '{name}', which it does not see"
        turn = next((turn for turn in episode.turns if mark in turn.text), None)
        return f"turn {turn.index} of '{turn.role}', which is not for it" if turn else f"'{mark}', which nobody said"

    def _roles(self, seat: str) -> Iterator[Any]:
        return (role for role in self.protocol.roles.values() if role.seat == seat)


def _reads(seat: str, turn: Turn) -> bool:
    """Whether a seat may read a turn of another."""
    return turn.kept and (turn.audience is None or seat in turn.audience)


def _rated(node: Node, seat: str) -> Sequence[str]:
    """Nodes whose turns the seat rates at a node, whether they are for it or not."""
    if node.best_of is not None and node.best_of.by is not None and node.best_of.by.seat == seat:
        return (node.name,)
    return node.about if node.by is not None and node.by.seat == seat else ()


class _Watched:
    """Says random things of the right form, marked where the form leaves room, and keeps what it was shown."""

    name = "random"

    def __init__(self, asks: list[tuple[Ask, list[str]]]) -> None:
        self._asks = asks
        self._random: ScriptedAgent = random_agent()

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One act an ask."""
        acts = []
        for ask in asks:
            self._asks.append((ask, [message.text for message in ask.new]))
            (act,) = self._random.act([ask])
            whole = ask.quote_field is not None and not isinstance(ask.task.fields.get(ask.quote_field), str)
            if ask.output is None and not whole:
                # The mark comes first, so that a limit does not cut it off; with it, some turns are over their limit.
                act.text = f"m{ask.seed:016x} {act.text}"
            acts.append(act)
        return acts


class _Dice:
    """Decides at random, by what it reads alone."""

    sees_label = False

    def __init__(self, seat: str, views: list[tuple[str, JudgeView]]) -> None:
        self.name = "dice"
        self._seat = seat
        self._views = views

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view."""
        self._views += [(self._seat, view) for view in views]
        return [self._throw(view) for view in views]

    def _throw(self, view: JudgeView) -> Verdict:
        rng = random.Random("\0".join([view.key, *(said.text for said in view.statements)]))
        weights = [rng.random() + 0.01 for _ in view.answers_argued]
        if not weights:
            raise ConfigError(f"there is nothing to decide in episode '{view.key}': its task has no answers")
        logps = tuple(math.log(weight / sum(weights)) for weight in weights)
        return Verdict(VerdictStatus.SCORED, self.name, logps)
