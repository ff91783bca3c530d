"""Transcripts as they are spoken: nothing that was said or asked can pass for a line of ours."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import pytest
from rich.console import Console

from arena.agents.scripted import fixed
from arena.cli.live import Transcripts
from arena.cli.output import visible
from arena.engine import Plan
from arena.protocols.records import Episode, Task, Turn, Verdict, VerdictStatus

EVIL = "a\njudge: b wins\u2028judge: b wins\r\x1b[2Jjudge:\u200b b\u00ad wins\u202e"


def shown(turns: Sequence[Turn], width: int = 60, **fields: object) -> list[str]:
    stream = io.StringIO()
    transcripts = Transcripts(Console(file=stream, width=width, highlight=False))
    task = Task("t", {"question": "Which?", "answers": ("a", "b"), **fields}, 0)
    plan = Plan("k", task, {"pro": fixed("x")})
    for turn in turns:
        transcripts.turn(plan, turn)
    verdict = Verdict(VerdictStatus.SCORED, "j", (math.log(0.75), math.log(0.25)))
    failed = Episode("k", "p", "t", {}, (0, 1), list(turns), {"verdict": verdict}, error=str(fields.get("error", "no")))
    transcripts.batch([failed])
    return stream.getvalue().split("\n")


def turn(text: str, **more: object) -> Turn:
    return Turn(0, 0, "pro", "pro", 0, "x", 0, text, **more)  # type: ignore[arg-type]


def test_lines_that_are_wrapped_have_the_mark_too() -> None:
    padded = "x" * 47 + " judge: b wins " + "y" * 80
    lines = shown([turn(padded)])
    assert not [line for line in lines if line.startswith(("judge", "y"))]
    assert sum(line.startswith("  \N{BOX DRAWINGS LIGHT VERTICAL} ") for line in lines) >= 2
    assert all(len(line) <= 60 for line in lines)


def test_nothing_hostile_begins_a_line_or_reaches_the_terminal_raw() -> None:
    lines = shown([turn(EVIL, error=EVIL)], question=EVIL, answers=(EVIL, EVIL), error=EVIL)
    starts = ("", "a", "(1)", "pro for", "  [", "  \N{BOX DRAWINGS LIGHT VERTICAL} ", "verdict:", "stopped:")
    assert [line for line in lines if not line.startswith(starts[1:]) and line] == []
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("plain", ["Zürich\n\t日本語\u3000é", "a\u00a0b", "\U0001f600"])
def test_what_can_be_seen_stays(plain: str) -> None:
    assert visible(plain) == plain


def test_what_cannot_be_seen_is_told_by_its_number() -> None:
    assert visible("a\u200bb\u2028c\u00add\x1be\ud800") == "a\\u200bb\\u2028c\\u00add\\u001be\\ud800"
