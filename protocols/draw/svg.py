"""A self-contained SVG for a page or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from arena.protocols.draw.facts import plain
from arena.protocols.draw.layout import (
    DOT,
    FACT,
    LABEL,
    LINE,
    NAME,
    STACK,
    TAG,
    Drawing,
    Label,
    Line,
    PlacedBox,
    lay_out,
)
from arena.protocols.draw.picture import picture_of
from arena.protocols.draw.shapes import outline
from arena.protocols.graph import END, START, Protocol

__all__ = ["to_svg"]

_PAD = 14.0
_INK, _SOFT, _PAPER = "var(--ink,#1d2226)", "var(--soft,#5f6a73)", "var(--paper,#fff)"
_FAINT, _WASH = "var(--line,#d5d9dc)", "var(--wash,#f3f5f3)"
_SPEECH, _DECISION, _PROGRAM = "var(--soft,#5f6a73)", "var(--c1,#1d6a86)", "var(--c2,#c0703a)"
_COLOURS = {
    **dict.fromkeys(("judge", "vote", "select"), _DECISION),
    **dict.fromkeys(("tool", "verify", "compute"), _PROGRAM),
}


def to_svg(protocol: Protocol) -> str:
    """A self-contained SVG. Colours follow the CSS variables of the page around it, if there are any.

    Solid bars wait for all nodes above them or begin all below at once, dashed lines have a condition or a bound, cards
    behind a box are the seats of a counted role.
    """
    drawing = lay_out(picture_of(protocol))
    marker = f"arrow-{protocol.fingerprint}"
    width, height = drawing.width + 2 * _PAD, drawing.height + 2 * _PAD
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.5g} {height:.5g}" width="{width:.5g}" '
            f'height="{height:.5g}" role="img" style="max-width:100%;height:auto;background:{_PAPER};'
            'font:13px/1.3 var(--sans,system-ui,sans-serif)">',
            f"<title>{escape(plain(f'Protocol {protocol.name}: {protocol.summary}'))}</title>",
            f'<defs><marker id="{marker}" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0.6 8 4 0 7.4z" style="fill:{_SOFT}"/></marker></defs>',
            f'<g transform="translate({_PAD:g} {_PAD:g})">',
            *_drawn(drawing, marker),
            "</g>",
            "</svg>\n",
        ]
    )


def _drawn(drawing: Drawing, marker: str) -> Iterator[str]:
    """Frames first, then lines, then what stands on them."""
    for frame in (box for box in drawing.boxes if box.inner is not None):
        yield from _frame(frame, marker)
    for line in drawing.lines:
        yield _line(line, marker)
    for bar in drawing.bars:
        yield from _bar(*bar)
    for box in drawing.boxes:
        if box.inner is None:
            yield from _box(box)
    for label in drawing.labels:
        yield from _label(label)


def _frame(frame: PlacedBox, marker: str) -> Iterator[str]:
    assert frame.inner is not None
    half = DOT / 2
    for shift in (2 * STACK, STACK, 0) if frame.box.count > 1 else (0,):
        yield (
            f'<rect x="{frame.x + shift:.5g}" y="{frame.y + half + shift:.5g}" width="{frame.width:.5g}" '
            f'height="{frame.height - DOT:.5g}" rx="10" style="fill:{_WASH};stroke:{_FAINT};stroke-width:1.4"/>'
        )
    yield _title(frame, frame.x + 12, frame.y + half + 20)
    inside = frame.width - frame.inner.width - 16
    yield f'<g transform="translate({frame.x + inside:.5g} {frame.y:.5g})">'
    yield from _drawn(frame.inner, marker)
    yield "</g>"


def _box(placed: PlacedBox) -> Iterator[str]:
    box = placed.box
    if box.key in (START, END):
        yield _terminal(placed)
        return
    colour = _COLOURS.get(box.kind, _SPEECH)
    style = f"fill:{_PAPER};stroke:{colour};stroke-width:1.4;stroke-linejoin:round"
    for card in (2, 1) if box.count > 1 else ():
        shift = card * STACK
        path = outline("card", placed.x + shift, placed.y + shift, placed.width, placed.height)
        yield f'<path d="{path}" style="{style}"/>'
    path = outline(box.kind, placed.x, placed.y, placed.width, placed.height)
    yield f'<path d="{path}" style="{style}"/>'
    yield _title(placed, placed.x + 18, placed.y + 22)
    for number, line in enumerate(placed.lines):
        yield _text(placed.x + 18, placed.y + 22 + LINE * (number + 1), line, _SOFT, FACT)


def _title(placed: PlacedBox, x: float, y: float) -> str:
    """The name, how many there are, and the kind in small capitals."""
    box = placed.box
    name = box.name + (f" ×{box.count}" if box.count > 1 else "")
    kind = _text(
        placed.x + placed.width - 18, y - 1, box.kind.upper(), _COLOURS.get(box.kind, _SOFT), TAG, anchor="end"
    )
    return _text(x, y, name, _INK, NAME, weight=600) + kind


def _terminal(placed: PlacedBox) -> str:
    x, y = placed.x + placed.width / 2, placed.y + placed.height / 2
    if placed.width <= DOT:
        return f'<circle cx="{x:.5g}" cy="{y:.5g}" r="{DOT / 2:g}" style="fill:{_SOFT}"/>'
    return (
        f'<rect x="{placed.x:.5g}" y="{placed.y:.5g}" width="{placed.width:.5g}" height="{placed.height:.5g}" '
        f'rx="12" style="fill:{_SOFT}"/>{_text(x, y + 4.5, placed.box.name, _PAPER, FACT, anchor="middle")}'
    )


def _bar(kind: str, x: float, y: float, width: float, height: float) -> Iterator[str]:
    if kind == "any":
        yield (
            f'<rect x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}" rx="7" '
            f'style="fill:{_PAPER};stroke:{_SOFT}"/>'
        )
        yield _text(x + width / 2, y + 11, "any", _SOFT, 10.5, anchor="middle")
    else:
        yield (
            f'<rect x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}" rx="2" style="fill:{_SOFT}">'
            f"<title>{'begin at once' if kind == 'fork' else 'all must have finished'}</title></rect>"
        )


def _line(line: Line, marker: str) -> str:
    dash = ";stroke-dasharray:5 4" if line.guarded else ""
    head = f' marker-end="url(#{marker})"' if line.arrow else ""
    return f'<path d="{line.path}" style="fill:none;stroke:{_SOFT};stroke-width:1.3{dash}"{head}/>'


def _label(label: Label) -> Iterable[str]:
    anchor = "start" if label.beside else "middle"
    for number, line in enumerate(label.lines):
        yield _text(label.x, label.y + 13 + LINE * number, line, _INK, LABEL, anchor=anchor, halo=True)


def _text(
    x: float,
    y: float,
    text: str,
    fill: str,
    size: float,
    *,
    anchor: str = "start",
    weight: int = 400,
    halo: bool = False,
) -> str:
    style = f"fill:{fill};font-size:{size:g}px"
    if weight != 400:
        style += f";font-weight:{weight}"
    if halo:
        style += f";stroke:{_PAPER};stroke-width:4;stroke-linejoin:round;paint-order:stroke"
    start = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.5g}" y="{y:.5g}"{start} style="{style}">{escape(text)}</text>'
