"""Transcripts as plain text: for the terminal, for reviews as a diff, and for golden tests.

    #1 opponent at con, by v5, argues [1] "Lyon", status over_limit
        | It is Lyon: <quote>on the Rhone</quote>
        quotes: verified "on the Rhone"

Everything counts from 0, as in the records. Whatever an agent or a task wrote stands behind a margin of its own (``|``
said, ``~`` hidden thinking, ``>`` told), in quotation marks or at the end of a line, with control characters made
visible: it can pass neither for a line of the transcript nor for another's turn.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from arena.agents.types import Act, Agent, Ask, Message
from arena.judges.types import Judge, JudgeView
from arena.protocols import Protocol
from arena.protocols.records import Episode, Quote, Task, Turn, TurnStatus, Verdict

__all__ = ["JudgeRecorder", "Recorder", "format_episode"]

_SAID, _HIDDEN, _TOLD = "    | ", "    ~ ", "    > "
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Recorder:
    """Wraps an agent and keeps what it was asked, so that a transcript can show what its role was told.

    Args:
        inner: the agent that answers.
        asks: where to keep the asks; recorders of one lineup may share a list.
    """

    def __init__(self, inner: Agent, asks: list[Ask] | None = None) -> None:
        self.name = inner.name
        self.inner = inner
        self.asks: list[Ask] = [] if asks is None else asks

    def act(self, asks: Sequence[Ask]) -> Sequence[Act]:
        """The acts of the inner agent; see `arena.agents.types.Agent`."""
        self.asks += (replace(ask, new=tuple(ask.new)) for ask in asks)
        return self.inner.act(asks)


class JudgeRecorder:
    """Wraps a judge and keeps the views that it was given; see `Recorder`."""

    def __init__(self, inner: Judge) -> None:
        self.name = inner.name
        self.sees_label = inner.sees_label
        self.inner = inner
        self.views: list[JudgeView] = []

    def judge(self, views: Sequence[JudgeView]) -> Sequence[Verdict]:
        """The verdicts of the inner judge; see `arena.judges.types.Judge`."""
        self.views += views
        return self.inner.judge(views)


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
    blocks = [_header(episode, protocol, task)]
    for superstep, turns in itertools.groupby(episode.turns, key=lambda turn: turn.superstep):
        shown = [_turn(turn, protocol, task, told.get(_turn_key(turn), ())) for turn in turns]
        blocks.append([f"step {superstep}", *itertools.chain.from_iterable(shown)])
    for role, given in (views or {}).items():
        mine = [view for view in given if view.key == episode.key]
        blocks += [_view(role, number, view, task) for number, view in enumerate(mine)]
    blocks.append(_ending(episode, protocol, task))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _header(episode: Episode, protocol: Protocol, task: Task) -> list[str]:
    lines = [f"protocol: {protocol.name}, version {protocol.version}", f"task: {_line(task.id)}"]
    if task.question:
        lines += _margined(_SAID, task.question)
    if task.answers:
        lines.append(f"answers: {', '.join(_answer(index, task) for index in range(len(task.answers)))}")
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
    if turn.fields:
        yield "    fields: " + ", ".join(f"{_line(name)} = {_value(value)}" for name, value in turn.fields.items())
    if turn.error:
        yield f"    error: {_line(turn.error)}"


def _facts(turn: Turn, protocol: Protocol, task: Task) -> Iterator[str]:
    """What stands beside a turn, from who acts to what became of it."""
    node = protocol.nodes[turn.node]
    yield f"{turn.role} at {turn.node}" if turn.role != turn.node else turn.node
    if turn.visit:
        yield f"visit {turn.visit}"
    if turn.agent not in ("", turn.role):
        yield f"by {_line(turn.agent)}"
    if turn.answer is not None:
        yield f"argues {_answer(turn.answer, task)}"
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


def _ending(episode: Episode, protocol: Protocol, task: Task) -> list[str]:
    lines = [f"{node}: {_verdict(verdict, task)}" for node, verdict in episode.verdicts.items()]
    lines += [f"{node}: {_verdict(verdict, None)}" for node, verdict in episode.inner_verdicts.items()]
    lines.append(f"stop: {_line(episode.stop)}")
    if episode.error is not None:
        lines.append(f"error: {_line(episode.error)}")
    return lines


def _verdict(verdict: Verdict, task: Task | None) -> str:
    """``scored by exact: [0] Paris 0.73, [1] Lyon 0.27``, or why there is no verdict."""
    head = f"{verdict.status} by {_line(verdict.judge)}"
    if not verdict.decidable:
        reason = verdict.evidence.get("reason") or verdict.evidence.get("error")
        return f"{head} ({_line(str(reason))})" if reason else head
    shares = (f"{_answer(k, task)} {math.exp(logp):.2f}" for k, logp in enumerate(verdict.logps))
    stated = f", stated [{verdict.stated}]" if verdict.stated not in (None, verdict.choice) else ""
    return f"{head}: {', '.join(shares)}{stated}"


def _answer(index: int, task: Task | None) -> str:
    if task is None or index >= len(task.answers):
        return f"[{index}]"
    return f"[{index}] {_value(task.answers[index])}"


def _finding(quote: Quote) -> str:
    if not quote.verified:
        return "unverified"
    return "repeated" if quote.repeated else "verified"


def _value(value: Any) -> str:
    """JSON on one line; floats short and without a negative zero, so that they read the same on every machine."""
    return _line(json.dumps(_short(value), ensure_ascii=False, default=str))


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4) + 0.0
    if isinstance(value, Mapping):
        return {name: _short(item) for name, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


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
