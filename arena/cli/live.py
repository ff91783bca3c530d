"""What is shown while a run goes on: transcripts as they are spoken, or a progress bar on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence, Sized
from math import exp
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from arena.cli.output import console, visible
from arena.engine import Plan
from arena.protocols.records import Episode, Task, Turn, TurnStatus, Verdict

__all__ = ["Bar", "RunDisplay", "Transcripts", "verdict_line"]

_MARGIN = "  \N{BOX DRAWINGS LIGHT VERTICAL} "
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")


_MOST_SHOWN = 20  # runs of more episodes than this show a progress bar instead of transcripts


class RunDisplay:
    """Shows a run: transcripts of a small one, a progress bar for a large one or when only the result is wanted."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shown: Bar | Transcripts = Bar("episodes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if isinstance(self._shown, Bar):
            self._shown.close()

    def start(self, total: int, done: int) -> None:
        """``done`` of ``total`` episodes are in the store already."""
        if total <= _MOST_SHOWN and not self._quiet:
            self._shown = Transcripts(console())
        elif isinstance(self._shown, Bar):
            self._shown.open()
        self._shown.start(total, done)

    def turn(self, plan: Plan, turn: Turn) -> None:
        """A turn was recorded."""
        if isinstance(self._shown, Transcripts):
            self._shown.turn(plan, turn)

    def batch(self, episodes: Sequence[Episode]) -> None:
        """Episodes were stored."""
        self._shown.batch(episodes)


class Bar:
    """A progress bar on a terminal; silent where standard error is not one."""

    def __init__(self, what: str) -> None:
        self._progress = Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task(what, total=None)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def open(self) -> None:
        """Show the bar."""
        self._progress.start()

    def close(self) -> None:
        """Leave it as it stands."""
        self._progress.stop()

    def start(self, total: int, done: int) -> None:
        """Set the length of the bar."""
        self._progress.update(self._task, total=total, completed=done)

    def batch(self, done: Sized) -> None:
        """Advance."""
        self._progress.advance(self._task, len(done))


class Transcripts:
    """Prints each turn when it is spoken.

    Many episodes are played at once. One of them is followed live; the others wait and are printed whole, in the order
    in which they began, so that transcripts never mix.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._waiting: dict[str, tuple[Plan, list[Turn]]] = {}
        self._finished: dict[str, Episode] = {}
        self._followed: str | None = None

    def start(self, total: int, done: int) -> None:
        """Say what is skipped."""
        if done:
            self._console.print(f"{done} of {total} episodes are finished already")

    def turn(self, plan: Plan, turn: Turn) -> None:
        """Print the turn if its episode is the one followed, else keep it."""
        if self._followed is None:
            self._follow(plan)
        if plan.key == self._followed:
            self._say(plan, turn)
            self._waiting.setdefault(plan.key, (plan, []))
        else:
            self._waiting.setdefault(plan.key, (plan, []))[1].append(turn)

    def batch(self, episodes: Sequence[Episode]) -> None:
        """Print the verdicts of finished episodes, and the episodes that waited for them."""
        self._finished |= {episode.key: episode for episode in episodes}
        for episode in episodes:
            if episode.key not in self._waiting:  # nobody spoke
                self._console.print()
                self._print(Text(visible(episode.task), style="bold"))
                self._close(self._finished.pop(episode.key), None)
        while self._followed in self._finished:
            assert self._followed is not None
            plan, _ = self._waiting.pop(self._followed)
            self._close(self._finished.pop(self._followed), plan.task)
            self._followed = None
            if self._waiting:
                plan, turns = next(iter(self._waiting.values()))
                self._follow(plan)
                for turn in turns:
                    self._say(plan, turn)
                turns.clear()

    def _follow(self, plan: Plan) -> None:
        self._followed = plan.key
        task = plan.task
        self._console.print()
        self._print(Text(visible(task.question or task.id), style="bold"))
        if task.answers:
            self._print(Text("  ".join(f"({i + 1}) {visible(text)}" for i, text in enumerate(task.answers))))

    def _say(self, plan: Plan, turn: Turn) -> None:
        roles = list(plan.lineup)
        colour = _COLOURS[roles.index(turn.role) % len(_COLOURS)] if turn.role in roles else "white"
        argued = "" if turn.answer is None else f" for {visible(plan.task.answers[turn.answer])}"
        head = Text(f"{turn.role}{argued}: ", style=f"bold {colour}")
        self._print(head.append(visible(turn.text), style="not bold default"))
        if notes := _notes(turn):
            self._print(Text(f"  [{notes}]", style="dim"))

    def _close(self, episode: Episode, task: Task | None) -> None:
        for node, verdict in episode.verdicts.items():
            self._print(Text(f"{node}: {verdict_line(verdict, task)}", style="bold"))
        if episode.error is not None:
            self._print(Text(f"stopped: {visible(episode.error)}", style="red"))

    def _print(self, text: Text) -> None:
        """With a mark before all lines but the first, written or wrapped: they cannot pass for another turn."""
        for number, line in enumerate(text.wrap(self._console, max(20, self._console.width - len(_MARGIN)))):
            self._console.print(Text(_MARGIN if number else "").append_text(line), soft_wrap=True)


def _notes(turn: Turn) -> str:
    notes = [] if turn.status is TurnStatus.OK else [str(turn.status)]
    if not turn.kept:
        notes.append("not kept")
    counts = {
        "quotes verified": sum(quote.good for quote in turn.quotes),
        "quotes not found": sum(not quote.verified for quote in turn.quotes),
        "quotes repeated": sum(quote.verified and quote.repeated for quote in turn.quotes),
    }
    notes += [f"{count} {what}" for what, count in counts.items() if count]
    if turn.error:
        notes.append(visible(turn.error))
    return "; ".join(notes)


def verdict_line(verdict: Verdict, task: Task | None) -> str:
    """``Paris 0.73, Lyon 0.27; right: Paris``, or ``score 7.5`` without answers, or why there is no verdict."""
    if not verdict.decidable:
        reason = verdict.evidence.get("reason") or verdict.evidence.get("error") or "no reason given"
        return f"{verdict.status} ({visible(str(reason))})"
    if not verdict.logps:
        return ", ".join(f"score {score:.4g}" for score in verdict.scores)
    answers = task.answers if task else tuple(f"answer {index + 1}" for index in range(len(verdict.logps)))
    line = ", ".join(f"{visible(text)} {exp(logp):.2f}" for text, logp in zip(answers, verdict.logps, strict=False))
    if task is not None and task.label is not None:
        line += f"; right: {visible(task.answers[task.label])}"
    return line
