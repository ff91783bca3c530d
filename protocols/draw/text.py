"""Boxes for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from textwrap import wrap

from arena.protocols.draw.facts import plain
from arena.protocols.draw.picture import Arrow, Box, Picture, picture_of
from arena.protocols.graph import END, START, Protocol

__all__ = ["to_text"]

_WIDEST = 100  # of the boxes of one row; more of them stand below each other
_FACT, _NOTE = 44, 52


def to_text(protocol: Protocol) -> str:
    """Boxes by superstep, with loops and conditions beside the nodes that they leave."""
    title = f"{protocol.name}: {protocol.summary}" if protocol.summary else protocol.name
    return "\n".join([plain(title), "", *_picture(picture_of(protocol))]) + "\n"


def _picture(picture: Picture) -> list[str]:
    blocks = [_row(picture, row) for row in picture.rows]
    width = max(len(line) for block in blocks for line in block)
    lines: list[str] = []
    for index, (row, block) in enumerate(zip(picture.rows, blocks, strict=True)):
        if index:
            lines.append("│".center(width).rstrip())
        notes = list(_notes(picture, index))
        middle = max(0, min(len(block) // 2, len(block) - len(notes)))
        beside = [""] * middle + notes
        centred = (line.center(width) for line in block)
        lines += [f"{line}  {note}".rstrip() for line, note in zip_longest(centred, beside, fillvalue="".center(width))]
        if _at_once(picture, row):
            lines.append("(at once)".center(width).rstrip())
    return lines


def _at_once(picture: Picture, row: Sequence[str]) -> bool:
    """Whether the boxes of a row really act in one superstep, instead of one or the other."""
    return len(row) > 1 and any(set(arrow.targets).issuperset(row) for arrow in picture.arrows)


def _row(picture: Picture, row: Sequence[str]) -> list[str]:
    if row[0] in (START, END):
        return [row[0]]
    contents = [_content(picture.boxes[key]) for key in row]
    lines: list[str] = []
    for line in _lines_of(contents):
        height = max(map(len, line))
        boxes = [_box([*content, *[""] * (height - len(content))]) for content in line]
        drawn = ["  ".join(parts) for parts in zip(*boxes, strict=True)]
        width = max(map(len, [*lines, *drawn]))
        lines = [line.center(width) for line in (*lines, *drawn)]
    return lines


def _lines_of(contents: Iterable[list[str]]) -> list[list[list[str]]]:
    """Boxes of one row in as many lines as they need."""
    lines: list[list[list[str]]] = [[]]
    used = 0
    for content in contents:
        width = max(map(len, content)) + 6
        if lines[-1] and used + width > _WIDEST:
            lines.append([])
            used = 0
        lines[-1].append(content)
        used += width
    return lines


def _content(box: Box) -> list[str]:
    many = f" ×{box.count}" if box.count > 1 else ""
    if box.inner is not None:
        return [f"{box.name}{many} (use)", "", *_picture(box.inner)]
    facts = (line for fact in box.facts for line in wrap(fact, _FACT, subsequent_indent="  ") or [""])
    return [f"{box.name}{many} ({box.kind})", *facts]


def _box(lines: Sequence[str]) -> list[str]:
    width = max(map(len, lines))
    inner = [f"│ {line.ljust(width)} │" for line in lines]
    return [f"┌{'─' * (width + 2)}┐", *inner, f"└{'─' * (width + 2)}┘"]


def _notes(picture: Picture, index: int) -> Iterator[str]:
    """The arrows that leave a row for anywhere but the next one, or only some of its boxes, in words."""
    row = set(picture.rows[index])
    following = set(picture.rows[index + 1]) if index + 1 < len(picture.rows) else set()
    for arrow in sorted(picture.arrows, key=lambda arrow: not arrow.guarded):  # as they are tried
        for one in (replace(arrow, sources=(key,)) for key in arrow.sources) if arrow.any else (arrow,):
            unusual = one.label or set(one.sources) != row or set(one.targets) != following
            if unusual and max(picture.row[key] for key in one.sources) == index:
                yield from wrap(_note(picture, one, row), _NOTE, subsequent_indent="  ")


def _note(picture: Picture, arrow: Arrow, row: set[str]) -> str:
    sources, targets = (" & ".join(picture.boxes[key].name for key in keys) for keys in (arrow.sources, arrow.targets))
    sign = "↺" if picture.goes_back(arrow) else "→"
    label = f", {', '.join(arrow.label)}" if arrow.label else ""
    return f"{f'{sources} ' if set(arrow.sources) != row else ''}{sign} {targets}{label}"
