"""Transcripts as plain text: for the terminal, for reviews as a diff, and for golden tests.

    #1 opponent at con, by v5, argues [1] "Lyon", status over_limit
        | It is Lyon: <quote>on the Rhone</quote>
        quotes: verified "on the Rhone"

Verdicts stand where they were given. Everything counts from 0, as in the records, but visits, which count from 1 as
``round`` does. Whatever an agent or a task wrote stands behind a margin of its own (``|``
said, ``~`` hidden thinking, ``>`` told), in quotation marks or at the end of a line, with control characters made
visible: it can pass neither for a line of the transcript nor for another's turn.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arena.agents.types import Act, Agent, Ask, AsyncAgent, Message
from arena.engine import AnyAgent
from arena.judges.types import AnyJudge, AsyncJudge, Judge, JudgeView
from arena.protocols import Protocol
from arena.protocols.records import Episode, Quote, Task, Turn, TurnStatus, Verdict

__all__ = ["JudgeRecorder", "Listener", "Recorder", "format_episode", "shortened"]

_SAID, _HIDDEN, _TOLD = "    | ", "    ~ ", "    > "
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Recorder:
    """Wraps an agent and keeps what it was asked, so that a transcript can show what its role was told.

    Args:
        inner: the agent that answers.
        asks: where to keep the asks; recorders of one lineup may share a list.
        keys: of the episodes whose asks are kept; None: of all.
    """

    def __init__(self, inner: Agent, asks: list[Ask] | None = None, keys: Container[str] | None = None) -> None:
        self.name = inner.name
        self.inner = inner
        self.asks: list[Ask] = [] if asks is None else asks
        self.keys = keys

    def act(self, asks: Sequence[Ask]) -> Sequence[Act]:
        """The acts of the inner agent; see `arena.agents.types.Agent`."""
        self.asks += (_kept(ask) for ask in asks if self.keys is None or ask.episode in self.keys)
        return self.inner.act(asks)


class _AsyncRecorder:
    """A `Recorder` of an asynchronous agent."""

    def __init__(self, inner: AsyncAgent, asks: list[Ask], keys: Container[str]) -> None:
        self.name = inner.name
        self.inner = inner
        self.asks = asks
        self.keys = keys

    async def answer(self, ask: Ask) -> Act:
        if ask.episode in self.keys:
            self.asks.append(_kept(ask))
        return await self.inner.answer(ask)


def _kept(ask: Ask) -> Ask:
    """With the messages of now: the engine goes on with the list."""
    return replace(ask, new=tuple(ask.new))


class JudgeRecorder:
    """Wraps a judge and keeps the views that it was given; see `Recorder`."""

    def __init__(self, inner: Judge, keys: Container[str] | None = None) -> None:
        self.name = inner.name
        self.sees_label = inner.sees_label
        self.inner = inner
        self.keys = keys
        self.views: list[JudgeView] = []

    def judge(self, views: Sequence[JudgeView]) -> Sequence[Verdict]:
        """The verdicts of the inner judge; see `arena.judges.types.Judge`."""
        self.views += (view for view in views if self.keys is None or view.key in self.keys)
        return self.inner.judge(views)


class _AsyncJudgeRecorder:
    """A `JudgeRecorder` of an asynchronous judge."""

    def __init__(self, inner: AsyncJudge, keys: Container[str]) -> None:
        self.name = inner.name
        self.sees_label = inner.sees_label
        self.inner = inner
        self.keys = keys
        self.views: list[JudgeView] = []

    async def verdict(self, view: JudgeView) -> Verdict:
        if view.key in self.keys:
            self.views.append(view)
        return await self.inner.verdict(view)


class Listener:
    """Keeps all that roles and judges are told in some episodes of a run, for their transcripts."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        """Episodes to listen to."""
        self.asks: list[Ask] = []
        self._judges: dict[str, JudgeRecorder | _AsyncJudgeRecorder] = {}

    def agents(self, lineup: Mapping[str, AnyAgent]) -> dict[str, AnyAgent]:
        """The lineup, listened to; seats that share an agent go on sharing it."""
        heard = {id(agent): self._agent(agent) for agent in lineup.values()}
        return {seat: heard[id(agent)] for seat, agent in lineup.items()}

    def _agent(self, agent: Any) -> AnyAgent:
        if hasattr(agent, "answer"):
            return _AsyncRecorder(agent, self.asks, self.keys)
        return Recorder(agent, self.asks, self.keys)

    def judges(self, judges: Mapping[str, AnyJudge]) -> dict[str, AnyJudge]:
        """The judges by seat, listened to."""
        self._judges = {seat: self._judge(judge) for seat, judge in judges.items()}
        return dict(self._judges)

    def _judge(self, judge: Any) -> JudgeRecorder | _AsyncJudgeRecorder:
        return (_AsyncJudgeRecorder if hasattr(judge, "verdict") else JudgeRecorder)(judge, self.keys)

    @property
    def views(self) -> dict[str, Sequence[JudgeView]]:
        """Judging seat -> what it was given."""
        return {seat: judge.views for seat, judge in self._judges.items()}


def format_episode(
    episode: Episode,
    protocol: Protocol,
    task: Task,
    asks: Iterable[Ask] | None = None,
    views: Mapping[str, Sequence[JudgeView]] | None = None,
) -> str:
    """An episode as text that ends in a line feed.

    Args:
        episode: what was played.
        protocol: of the episode.
        task: of the episode, with its label if known.
        asks: what `Recorder` kept: each turn then shows what its role was told before it, by kind of message.
        views: judging role -> what `JudgeRecorder` kept: what the judges read is then shown before the verdicts.
    """
    told = {_ask_key(ask): ask.new for ask in asks or () if ask.episode == episode.key}
    rulings, unplaced = _with_views(episode, protocol, views or {})
    blocks = [_header(episode, protocol, task)]
    for superstep, group in itertools.groupby(episode.turns, key=lambda turn: turn.superstep):
        turns = list(group)
        while rulings and rulings[0].after <= turns[0].index:
            first = rulings.pop(0)
            blocks.append([*first.read(task), first.line(task)])
        shown = [_turn(turn, protocol, task, told.get(_turn_key(turn), ())) for turn in turns]
        blocks.append([f"step {superstep}", *itertools.chain.from_iterable(shown)])
    blocks += [_view(role, number, view, task) for role, number, view in unplaced]
    blocks += [read for ruling in rulings if (read := ruling.read(task))]
    blocks.append([*(ruling.line(task) for ruling in rulings), *_ending(episode)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


@dataclass(slots=True)
class _Ruling:
    """A judge, or a vote that gives a verdict, has run."""

    node: str
    after: int
    """How many turns there were."""
    verdict: Verdict | None
    """None where a later one of the same node took its place."""
    inner: bool
    """On answers of a nested protocol."""
    view: tuple[str, int, JudgeView] | None = None
    """What was read: seat, number, view."""

    def read(self, task: Task) -> list[str]:
        return _view(*self.view, task) if self.view else []

    def line(self, task: Task) -> str:
        if self.verdict is None:
            return f"{self.node}: decided, and once more later"
        answers = self.view[2].answers if self.view else None if self.inner else task.answers
        return f"{self.node}: {_verdict(self.verdict, answers)}"


def _rulings(episode: Episode, protocol: Protocol) -> list[_Ruling]:
    """In the order in which they were made."""
    found = []
    for inner, verdicts in ((True, episode.inner_verdicts), (False, episode.verdicts)):
        for node, verdict in verdicts.items():
            *before, last = episode.judged.get(node) or (_after_last(episode, node),)
            found += [_Ruling(node, after, None, inner) for after in before]
            found.append(_Ruling(node, last, verdict, inner))
    return sorted(found, key=lambda ruling: ruling.after)


def _after_last(episode: Episode, node: str) -> int:
    """How many turns there were when a vote had been counted."""
    return max((turn.index + 1 for turn in episode.turns if turn.node == node), default=len(episode.turns))


def _with_views(
    episode: Episode, protocol: Protocol, views: Mapping[str, Sequence[JudgeView]]
) -> tuple[list[_Ruling], list[tuple[str, int, JudgeView]]]:
    """The rulings with what was read for them, and the views of which that is not known: of judges that also rate
    candidates, or decide at several nodes at once."""
    rulings, unplaced = _rulings(episode, protocol), []
    for seat, given in views.items():
        mine = [(seat, number, view) for number, view in enumerate(v for v in given if v.key == episode.key)]
        own = [each for each in rulings if each.node in episode.judged and protocol.nodes[each.node].role.seat == seat]
        if len(own) != len(mine) or len({each.after for each in own}) < len(own):
            unplaced += mine
            continue
        for ruling, view in zip(own, mine, strict=True):
            ruling.view = view
    return rulings, unplaced


def _header(episode: Episode, protocol: Protocol, task: Task) -> list[str]:
    lines = [f"protocol: {protocol.name}, version {protocol.version}", f"task: {_line(task.id)}"]
    if task.question:
        lines += _margined(_SAID, task.question)
    if task.answers:
        lines.append(f"answers: {', '.join(_answer(index, task.answers) for index in range(len(task.answers)))}")
    if task.label is not None:
        lines.append(f"right: [{task.label}]")
    if episode.lineup:
        lines.append("lineup: " + ", ".join(f"{role} = {_line(agent)}" for role, agent in episode.lineup.items()))
    if protocol.seats and episode.sides:
        argued = zip(protocol.seats, episode.sides, strict=False)
        lines.append("sides: " + ", ".join(f"{role} [{side}]" for role, side in argued))
    return lines


def _turn(turn: Turn, protocol: Protocol, task: Task, told: Sequence[Message]) -> Iterator[str]:
    yield f"#{turn.index} {', '.join(_facts(turn, protocol, task))}"
    for message in told:
        yield f"    {message.kind}:"
        yield from _margined(_TOLD, message.text)
    if turn.thinking:
        yield "    thinking, hidden:"
        yield from _margined(_HIDDEN, turn.thinking)
    if told or turn.thinking:
        yield "    said:"
    yield from _margined(_SAID, turn.text)
    if turn.quotes:
        yield "    quotes: " + ", ".join(f"{_finding(quote)} {_value(quote.text)}" for quote in turn.quotes)
    if fields := _telling(turn, protocol):
        yield "    fields: " + ", ".join(f"{_line(name)} = {_value(value)}" for name, value in fields.items())
    if turn.error:
        yield f"    error: {_line(turn.error)}"


def _telling(turn: Turn, protocol: Protocol) -> Mapping[str, Any]:
    """The fields that say something: a mean is not the choice of so many."""
    node = protocol.nodes[turn.node]
    idle = ("votes", "share", "agreed") if node.kind == "vote" and node.rule == "mean" else ()
    return {name: value for name, value in turn.fields.items() if name not in idle}


def _facts(turn: Turn, protocol: Protocol, task: Task) -> Iterator[str]:
    """What stands beside a turn, from who acts to what became of it."""
    node = protocol.nodes[turn.node]
    yield f"{turn.role} at {turn.node}" if turn.role != turn.node else turn.node
    if turn.visit:
        yield f"visit {turn.visit + 1}"
    if turn.agent not in ("", turn.role):
        yield f"by {_line(turn.agent)}"
    if turn.answer is not None:
        yield f"argues {_answer(turn.answer, task.answers)}"
    if turn.about:
        yield "about " + " ".join(f"#{index}" for index in turn.about)
    if turn.replaces is not None:
        yield f"replaces #{turn.replaces}"
    if turn.attempt:
        yield f"attempt {turn.attempt}"
    if node.best_of:
        yield f"sample {turn.sample}"
    if not turn.kept:
        yield "not kept"
    elif turn.audience is not None:
        itself = "self" if node.speaks and not node.ephemeral else "nobody"
        yield f"to {' '.join(turn.audience) or itself}"
    if turn.status is not TurnStatus.OK:
        yield f"status {turn.status}"


def _view(role: str, number: int, view: JudgeView, task: Task) -> list[str]:
    """What a judge read; question and answers where they are not the task's, as in nested protocols."""
    lines = [f"{role} reads, time {number}"]
    own = {
        "question": view.question if view.question != task.question else "",
        "answers": list(view.answers) if tuple(view.answers) != task.answers else "",
    }
    for name, value in ({name: value for name, value in own.items() if value} | dict(view.fields)).items():
        lines += [f"    {name}:", *_margined(_TOLD, value if isinstance(value, str) else _value(value))]
    for said in view.statements:
        argued = "" if said.answer is None else f", argues [{said.answer}]"
        lines += [f"    {said.role}{argued}:", *_margined(_TOLD, said.text)]
        lines += [f"    quote: {_value(quote.text)}" for quote in said.quotes if not said.text]
    return lines


def _ending(episode: Episode) -> list[str]:
    lines = [f"stop: {_line(episode.stop)}"]
    if episode.error is not None:
        lines.append(f"error: {_line(episode.error)}")
    return lines


def _verdict(verdict: Verdict, answers: Sequence[str] | None) -> str:
    """``scored by exact: [0] "Paris" 0.73, [1] "Lyon" 0.27``, or why there is no verdict; None: answers not stored.

    Scores stand behind: ``[0] "Paris" 0.73 (score 7.5)``, or alone where there are no answers.
    """
    head = f"{verdict.status} by {_line(verdict.judge)}"
    if not verdict.decidable:
        reason = verdict.evidence.get("reason") or verdict.evidence.get("error")
        return f"{head} ({_line(str(reason))})" if reason else head
    if not verdict.logps:
        return f"{head}: " + ", ".join(f"score {score:.4g}" for score in verdict.scores)
    scores = [f" (score {score:.4g})" for score in verdict.scores] or [""] * len(verdict.logps)
    shares = (
        f"{_answer(k, answers or ())} {math.exp(logp):.2f}{score}"
        for k, (logp, score) in enumerate(zip(verdict.logps, scores, strict=False))
    )
    head += " on answers of its own" if answers is None else ""
    stated = f", stated [{verdict.stated}]" if verdict.stated not in (None, verdict.choice) else ""
    return f"{head}: {', '.join(shares)}{stated}"


def _answer(index: int, answers: Sequence[str]) -> str:
    return f"[{index}] {_value(answers[index])}" if index < len(answers) else f"[{index}]"


def _finding(quote: Quote) -> str:
    if not quote.verified:
        return "unverified"
    return "repeated" if quote.repeated else "verified"


def _value(value: Any) -> str:
    """JSON on one line; floats short and without a negative zero, so that they read the same on every machine."""
    return _line(json.dumps(shortened(value), ensure_ascii=False, default=str))


def shortened(value: Any) -> Any:
    """The value with its floats cut to four decimals, wherever they stand in it."""
    if isinstance(value, float):
        return round(value, 4) + 0.0
    if isinstance(value, Mapping):
        return {name: shortened(item) for name, item in value.items()}
    return [shortened(item) for item in value] if isinstance(value, list | tuple) else value


def _margined(margin: str, text: str) -> Iterator[str]:
    """The lines of a text behind a margin, without trailing blanks, which editors and diffs swallow."""
    for line in text.split("\n"):
        yield f"{margin}{_line(line)}".rstrip()


def _line(text: str) -> str:
    """``text`` on one line: whatever prints as nothing, or moves what stands around it, is told by its number."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _NAMED.get(c, f"\\u{ord(c):04x}") for c in text)
    return f"{text[:-1]}\\u0020" if text.endswith(" ") else text


def _ask_key(ask: Ask) -> tuple[str, int, int, int]:
    return ask.node, ask.visit, ask.sample, ask.attempt


def _turn_key(turn: Turn) -> tuple[str, int, int, int]:
    return turn.node, turn.visit, turn.sample, turn.attempt
