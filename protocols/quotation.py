"""Which lines of a text are its writer's own words, and which only repeat what somebody said.

A line is repeated if it stands

* behind ``>``, as mail and Markdown quote;
* in a code fence (three or more backticks or tildes; one that is never closed lasts to the end);
* in quotation marks: it begins with one that is not closed before the line ends, or it lies between a pair whose first
  mark stands on an earlier line. Marks that are never closed quote their own line alone, since an inch is no quotation;
* between tags that quote (``<quote>``, ``<verified>``, ``<blockquote>``, ...), which are like marks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

__all__ = ["own_lines", "starts_quoted"]

_FENCE = re.compile(r"(?P<mark>`{3,})[^`]*|(?P<tilde>~{3,}).*")
_BULLETS = " \t*_-+•"
_CLOSED_BY = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "‘": "’",
    "‚": "‘’",
    "「": "」",
}
_LONG = '"“„«»「'
"""Marks that can span lines; an apostrophe looks like the others."""
_TAGS = "quote|verified|unverified|blockquote|q|pre|code|cite"
_TURN = re.compile(rf"[{_LONG}”」]|<(?P<close>/?)(?P<tag>{_TAGS})>", re.I)
_NO_OPENING = ".,;!?)]}…"
"""What stands before a closing ``"`` and not before an opening one, like letters and digits."""


def own_lines(lines: Sequence[str]) -> list[bool]:
    """For each line of a text whether it is its writer's own."""
    own: list[bool] = []
    fence = open_mark = ""
    since: list[int] = []
    for number, line in enumerate(lines):
        bare = line.strip()
        if fence:
            own.append(False)
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
            continue
        found = _FENCE.fullmatch(bare)
        if found is not None:
            own.append(False)
            fence = found["mark"] or found["tilde"]
            continue
        quoted = starts_quoted(line)
        own.append(not quoted and not open_mark)
        if open_mark and not quoted:
            since.append(number)
        after = _read_marks(line, open_mark)
        if not after:
            since = []
        open_mark = after
    for number in since:  # never closed
        own[number] = True
    return own


def starts_quoted(line: str) -> bool:
    """Whether a line by itself is quoted: behind ``>``, or in a quotation mark that is not closed before its end."""
    bare = line.lstrip(_BULLETS).rstrip(" \t*_.,;:!")
    if bare.startswith((">", "＞")):
        return True
    closing = _CLOSED_BY.get(bare[:1])
    if closing is None:
        return False
    inside = itertools.pairwise(bare[1:])
    return not any(mark in closing and not after.isalnum() for mark, after in inside)  # con's closes nothing


def _read_marks(line: str, opened: str) -> str:
    """The mark or tag that is open after a line; empty if there is none."""
    for found in _TURN.finditer(line):
        if tag := found["tag"]:
            tag = tag.lower()
            if not opened and not found["close"]:
                opened = tag
            elif opened == tag and found["close"]:
                opened = ""
            continue
        mark = found[0]
        before, after = line[: found.start()][-1:], line[found.end() :][:1]
        if not opened:
            opens = mark in _LONG and not (mark == '"' and (before.isalnum() or (before and before in _NO_OPENING)))
            opened = mark if opens else ""
        elif mark in _CLOSED_BY.get(opened, "") and not (mark == '"' and _begins(before, after)):
            opened = ""
    return opened


def _begins(before: str, after: str) -> bool:
    """Whether a straight mark between these characters begins a quotation that goes on, as at each new paragraph."""
    return not before.strip() and (after.isalnum() or after in tuple("(['*_$<"))
