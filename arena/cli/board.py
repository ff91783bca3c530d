"""A tournament while it is played: standings on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arena.cli.output import visible

if TYPE_CHECKING:
    from arena.ratings import Rating
    from arena.tournament import Live

__all__ = ["Board"]

_MOST = 30
"""Agents of a live table: the best ones."""
_PAUSE = 1.0
_LINES_PAUSE = 30.0
_SHARE = 10
"""Ratings are computed anew after so many times as long as they took."""


class Board:
    """Shows a `Live` tournament on standard error.

    Args:
        quiet: show nothing where standard error is no terminal.
        console: where to; by default standard error.
        clock: seconds.
    """

    def __init__(
        self, *, quiet: bool = False, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._terminal = self._console.is_terminal if console else sys.stderr.isatty()
        self._quiet = quiet and not self._terminal
        self._clock = clock
        self._started = clock()
        self._next = 0.0
        self._stage: tuple[str, int] = ("", -1)
        self._ratings: list[Rating] = []
        self._screen = Screen(console=self._console, auto_refresh=False, transient=True) if self._terminal else None

    def __enter__(self) -> Self:
        if self._screen is not None:
            self._screen.start()
        return self

    def __exit__(self, *reason: object) -> None:
        if self._screen is not None:
            self._screen.stop()

    def watch(self, live: Live) -> None:
        """Show what is known, if it is time to."""
        stage = (live.stage, live.round)
        now = self._clock()
        over = live.done >= live.total
        if self._quiet or (stage == self._stage and now < self._next and not over):
            return
        self._stage = stage
        if self._screen is None:
            if over or now >= self._next:
                self._next = now + _LINES_PAUSE
                self._console.print(self._line(live, now), soft_wrap=True, markup=False)
            return
        self._ratings = live.ratings() if live.stage == "games" else self._ratings
        self._next = self._clock() + max(_PAUSE, _SHARE * (self._clock() - now))
        self._screen.update(self._page(live, now), refresh=True)

    def _line(self, live: Live, now: float) -> str:
        """One line of numbers."""
        where = f"round {live.round + 1}" if live.stage == "games" and live.open_end else live.stage
        parts = [f"{now - self._started:5.0f} s", where, f"{live.done} of {live.total}"]
        if live.tokens and now > self._started:
            parts.append(f"{live.tokens / (now - self._started):.0f} tokens/s")
        if live.undecided.verdicts:
            parts.append(f"{live.undecided.share:.1%} undecidable")
        return visible("  ".join(parts))

    def _page(self, live: Live, now: float) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("agent")
        for header in ("Elo", "95 % interval", "games"):
            table.add_column(header, justify="right")
        for rating in self._ratings[:_MOST]:
            interval = f"{rating.low:+.0f} .. {rating.high:+.0f}"
            table.add_row(Text(visible(rating.name)), f"{rating.elo:+.0f}", interval, str(rating.games))
        more = [Text(f"and {len(self._ratings) - _MOST} more")] if len(self._ratings) > _MOST else []
        bar = Table.grid()  # a bar by itself does not end its line
        bar.add_row(ProgressBar(total=max(1, live.total), completed=live.done, width=60))
        left = f"{live.total - live.done} left" + (", and what later rounds ask for" if live.open_end else "")
        return Group(table, *more, bar, Text(self._line(live, now)), Text(left))
