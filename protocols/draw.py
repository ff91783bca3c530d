"""Pictures of a protocol: Mermaid for Markdown, boxes for the terminal, SVG for a page.

All three lay the graph out by superstep: a node stands in the row in which it can act first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from arena.protocols.graph import END, START, Edge, Node, Protocol

__all__ = ["to_mermaid", "to_svg", "to_text"]


def _rows(protocol: Protocol) -> list[list[str]]:
    """Names by the first superstep in which they can act; ``start`` comes first and ``end`` last."""
    rows, reached = [[START]], {START}
    while True:
        found = {
            target for edge in protocol.edges if reached.issuperset(edge.sources) for target in edge.targets
        } - reached
        inner = sorted(found - {END}, key=lambda name: protocol.nodes[name].order)
        if not inner:
            return [*rows, [END]]
        rows.append(inner)
        reached |= set(inner)


def _at_once(protocol: Protocol, row: Sequence[str]) -> bool:
    """Whether the nodes of a row really act in one superstep, instead of one or the other."""
    return len(row) > 1 and any(edge.targets.issuperset(row) for edge in protocol.edges)


def _facts(protocol: Protocol, node: Node) -> list[str]:
    """What a box says below the node's name."""
    if node.kind == "judge":
        heard = "reads good quotes" if node.role.hears == "quotes" else "reads all turns"
        speaks = any(other.kind == "speak" for other in protocol.nodes.values())
        return [f"{node.role.name} {heard if speaks else 'decides alone'}"]
    argued = "" if node.role.argues is None else f", seat {node.role.argues}"
    facts = [f"{node.role.name} speaks{argued}"]
    if node.quote:
        facts.append(f"quotes {node.quote.field}" + (", each once" if node.quote.once else ""))
    limits = [(node.max_words, "word"), (node.max_tokens, "token")]
    given = [f"{limit} {unit}{'s' * (limit != 1)}" for limit, unit in limits if limit is not None]
    if given:
        facts.append(f"at most {', '.join(given)}")
    if node.audience is not None:
        facts.append(f"read by {', '.join(node.audience) or 'nobody'}")
    return facts


def _guard(edge: Edge) -> str:
    """The condition of an edge in words; empty for a plain one."""
    parts = []
    if edge.times is not None:
        parts.append(f"up to {edge.times} time{'s' * (edge.times != 1)}")
        if edge.bound != str(edge.times):
            parts[0] += f" ({edge.bound})"
    if edge.when is not None:
        parts.append(f"when {edge.when.source}")
    return " ".join(" ".join(parts).split())


def _joined(names: Iterable[str], protocol: Protocol) -> str:
    return " & ".join(_in_order(names, protocol))


def _in_order(names: Iterable[str], protocol: Protocol) -> list[str]:
    """Node names as the file has them; start and end first."""
    return sorted(names, key=lambda name: protocol.nodes[name].order if name in protocol.nodes else -1)


# -- Mermaid


def to_mermaid(protocol: Protocol) -> str:
    """A Mermaid flowchart; guarded edges are dotted and carry their bound."""
    lines = ["flowchart TD", f"    {_id(START)}([start])"]
    for node in protocol.nodes.values():
        text = _mermaid_text("\n".join([node.name, *_facts(protocol, node)]))
        left, right = ("{{", "}}") if node.kind == "judge" else ("[", "]")
        lines.append(f'    {_id(node.name)}{left}"{text}"{right}')
    lines.append(f"    {_id(END)}([end])")
    for edge in protocol.edges:
        arrow = f'-. "{_mermaid_text(_guard(edge))}" .->' if edge.guarded else "-->"
        sources, targets = (" & ".join(map(_id, _in_order(names, protocol))) for names in (edge.sources, edge.targets))
        lines.append(f"    {sources} {arrow} {targets}")
    return "\n".join(lines) + "\n"


def _id(name: str) -> str:
    # Mermaid has words of its own, `end` among them.
    return "n_" + name.replace("-", "__")


def _mermaid_text(text: str) -> str:
    return re.sub(r"[^\w\s.,()+*/:&-]", lambda found: f"#{ord(found[0])};", text).replace("\n", "<br/>")


# -- text


def to_text(protocol: Protocol) -> str:
    """Boxes by superstep for a terminal, with loops and conditions beside the nodes that they leave."""
    rows = _rows(protocol)
    blocks = [_text_row(protocol, row) for row in rows]
    width = max(len(line) for block in blocks for line in block)
    lines = [f"{protocol.name}: {protocol.summary}" if protocol.summary else protocol.name, ""]
    for index, (row, block) in enumerate(zip(rows, blocks, strict=True)):
        notes = _notes(protocol, rows, index)
        if index:
            lines.append("│".center(width).rstrip())
        middle = len(block) // 2
        for number, line in enumerate(block):
            note = notes[number - middle] if 0 <= number - middle < len(notes) else ""
            lines.append(f"{line.center(width)}  {note}".rstrip())
        lines += [f"{' ' * width}  {note}" for note in notes[len(block) - middle :]]
        if _at_once(protocol, row):
            lines.append("(at once)".center(width).rstrip())
    return "\n".join(lines) + "\n"


def _text_row(protocol: Protocol, row: Sequence[str]) -> list[str]:
    if row[0] not in protocol.nodes:
        return [row[0]]
    contents = [[name, *_facts(protocol, protocol.nodes[name])] for name in row]
    height = max(map(len, contents))
    boxes = [_box([*content, *[""] * (height - len(content))]) for content in contents]
    return ["  ".join(parts) for parts in zip(*boxes, strict=True)]


def _box(lines: Sequence[str]) -> list[str]:
    width = max(map(len, lines))
    inner = [f"│ {line.ljust(width)} │" for line in lines]
    return [f"┌{'─' * (width + 2)}┐", *inner, f"└{'─' * (width + 2)}┘"]


def _notes(protocol: Protocol, rows: Sequence[Sequence[str]], index: int) -> list[str]:
    """The edges that leave a row for anywhere but the next one, in words."""
    following = set(rows[index + 1]) if index + 1 < len(rows) else set()
    notes = []
    for edge in protocol.edges:
        if _last_row(rows, edge) != index or (edge.targets <= following and not edge.guarded):
            continue
        sign = "↺" if _goes_back(rows, edge) else "→"
        source = f"{_joined(edge.sources, protocol)} " if edge.sources != set(rows[index]) else ""
        guard = f", {_guard(edge)}" if edge.guarded else ""
        notes.append(f"{source}{sign} {_joined(edge.targets, protocol)}{guard}")
    return notes


def _row_of(rows: Sequence[Sequence[str]], name: str) -> int:
    return next(index for index, row in enumerate(rows) if name in row)


def _last_row(rows: Sequence[Sequence[str]], edge: Edge) -> int:
    return max(_row_of(rows, name) for name in edge.sources)


def _goes_back(rows: Sequence[Sequence[str]], edge: Edge) -> bool:
    return min(_row_of(rows, name) for name in edge.targets) <= _last_row(rows, edge)


# -- SVG

_WIDTH, _LINE, _GAP_X, _GAP_Y, _PAD = 216, 17, 28, 46, 12
_INK, _SOFT, _EDGE = "var(--ink,#1d2226)", "var(--soft,#5f6a73)", "var(--soft,#7b858d)"
_PAPER, _ACCENT = "var(--paper,#fff)", "var(--c1,#2a6f97)"


@dataclass(frozen=True, slots=True)
class _Place:
    """A box: centre x, top, width and height in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def right(self) -> float:
        return self.x + self.width / 2


def to_svg(protocol: Protocol) -> str:
    """A self-contained SVG. Colours follow the CSS variables of the page around it, if there are any."""
    rows = _rows(protocol)
    places, size = _place(protocol, rows)
    edges: list[str] = []
    labels: list[str] = []
    taken: list[float] = []
    right = size[0]
    loops = [edge for edge in protocol.edges if _goes_back(rows, edge)]
    for edge in protocol.edges:
        if edge not in loops:
            edges += _svg_forward(edge, places)
            labels += _svg_condition(edge, places)
    for number, edge in enumerate(loops):
        drawn, label, reach = _svg_loop(edge, places, number, len(loops), taken)
        edges.append(drawn)
        labels.append(label)
        right = max(right, reach)
    bands = [_svg_band([places[name] for name in row]) for row in rows if _at_once(protocol, row)]
    boxes = [_svg_box(protocol, name, place) for name, place in places.items()]
    title = escape(f"Protocol {protocol.name}: {protocol.summary}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:g} {size[1]:g}" width="{right:g}" '
            f'height="{size[1]:g}" role="img" style="max-width:100%;height:auto;'
            'font:13px/1.3 var(--sans,system-ui,sans-serif)">',
            f"<title>{title}</title>",
            f'<defs><marker id="{_marker(protocol)}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0.5 8 4 0 7.5z" style="fill:{_EDGE}"/></marker></defs>',
            *bands,
            *(edge.replace("MARKER", _marker(protocol)) for edge in edges),
            *boxes,
            *labels,
            "</svg>\n",
        ]
    )


def _marker(protocol: Protocol) -> str:
    return f"arrow-{protocol.fingerprint}"


def _place(protocol: Protocol, rows: Sequence[Sequence[str]]) -> tuple[dict[str, _Place], tuple[float, float]]:
    """Boxes by name, and the size of the picture without loops."""
    widest = max(map(len, rows))
    width = widest * _WIDTH + (widest - 1) * _GAP_X + 2 * _PAD + 16
    places: dict[str, _Place] = {}
    y = float(_PAD)
    for row in rows:
        if row[0] in protocol.nodes:
            height = max(len(_facts(protocol, protocol.nodes[name])) for name in row) * _LINE + 36.0
            left = (width - len(row) * _WIDTH - (len(row) - 1) * _GAP_X) / 2
            for number, name in enumerate(row):
                x = left + number * (_WIDTH + _GAP_X) + _WIDTH / 2
                places[name] = _Place(x, y, _WIDTH, height)
        else:
            height = 26.0
            places[row[0]] = _Place(width / 2, y, 64, height)
        y += height + _GAP_Y
    return places, (width, y - _GAP_Y + _PAD)


def _svg_box(protocol: Protocol, name: str, place: _Place) -> str:
    left = place.x - place.width / 2
    node = protocol.nodes.get(name)
    if node is None:
        return (
            f'<rect x="{left:g}" y="{place.y:g}" width="{place.width:g}" height="{place.height:g}" rx="13" '
            f'style="fill:{_SOFT}"/>{_svg_text(place.x, place.y + 17.5, name, _PAPER, "middle")}'
        )
    judge = node.kind == "judge"
    lines = [_svg_text(left + 14, place.y + 24, name, _ACCENT if judge else _INK, weight=600)]
    for number, fact in enumerate(_facts(protocol, node)):
        lines.append(_svg_text(left + 14, place.y + 24 + _LINE * (number + 1), _fit(fact), _SOFT, size=12))
    radius, stroke, width = (14, _ACCENT, 1.6) if judge else (4, _EDGE, 1.2)
    return (
        f'<rect x="{left:g}" y="{place.y:g}" width="{place.width:g}" height="{place.height:g}" rx="{radius}" '
        f'style="fill:{_PAPER};stroke:{stroke};stroke-width:{width}"/>{"".join(lines)}'
    )


def _fit(text: str) -> str:
    return text if len(text) <= 32 else text[:31] + "…"


def _svg_band(places: Sequence[_Place]) -> str:
    """The frame around nodes that act at once."""
    left, right = places[0].x - places[0].width / 2 - 8, places[-1].right + 8
    top, bottom = places[0].y - 8, max(place.bottom for place in places) + 8
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="8" '
        f'style="fill:none;stroke:var(--line,#d5d9dc);stroke-dasharray:4 4"><title>at once</title></rect>'
    )


def _svg_forward(edge: Edge, places: dict[str, _Place]) -> list[str]:
    drawn = []
    for source in sorted(edge.sources):
        for target in sorted(edge.targets):
            a, b = places[source], places[target]
            middle = (a.bottom + b.y) / 2
            curve = f"M{a.x:g} {a.bottom:g}C{a.x:g} {middle:g} {b.x:g} {middle:g} {b.x:g} {b.y - 1:g}"
            drawn.append(_svg_path(curve, edge.guarded))
    return drawn


def _svg_condition(edge: Edge, places: dict[str, _Place]) -> list[str]:
    """The label of a forward edge that is not always taken."""
    if not edge.guarded:
        return []
    a, b = places[min(edge.sources)], places[min(edge.targets)]
    return [_svg_text((a.x + b.x) / 2 + 8, (a.bottom + b.y) / 2 + 4, _guard(edge), _SOFT, size=12)]


def _svg_loop(
    edge: Edge, places: dict[str, _Place], number: int, count: int, taken: list[float]
) -> tuple[str, str, float]:
    """A path back along the right side in a lane of its own, its label, and how far to the right it all reaches."""
    sources, targets = ([places[name] for name in sorted(names)] for names in (edge.sources, edge.targets))
    out = max(sources, key=lambda place: (place.bottom, place.right))
    back = min(targets, key=lambda place: (place.y, -place.right))
    lane = max(place.right for place in places.values()) + 22 + 18 * number
    if _is_last(out, places):
        x0, y0 = out.right + 8 * (len(sources) > 1), out.y + out.height * 0.72 - 5 * number
        path = f"M{x0:g} {y0:g}"
    else:
        x0, y0 = out.x + 40 + 12 * number, out.bottom + 12 + 5 * number
        path = f"M{x0:g} {out.bottom:g}V{y0:g}"
    if _is_last(back, places):
        x1, y1 = back.right + 8 * (len(targets) > 1), back.y + back.height * 0.28 + 5 * number
        tail = f"H{x1 + 1:g}"
    else:
        x1, y1 = back.x + 40 + 12 * number, back.y - 14 - 5 * number
        tail = f"H{x1:g}V{back.y - 1:g}"
    bend = min(12.0, abs(y0 - y1) / 2)
    path += f"H{lane - bend:g}Q{lane:g} {y0:g} {lane:g} {y0 - bend:g}"
    path += f"V{y1 + bend:g}Q{lane:g} {y1:g} {lane - bend:g} {y1:g}"
    # All labels stand outside of the last lane, each on a line of its own.
    text, beside, y = _guard(edge), lane + 18 * (count - 1 - number) + 8, (y0 + y1) / 2 + 4
    while any(abs(y - other) < 16 for other in taken):
        y += 4
    taken.append(y)
    label = _svg_text(beside, y, text, _SOFT, size=12)
    return _svg_path(path + tail, dotted=True), label, beside + 12 + 6.6 * len(text)


def _is_last(place: _Place, places: dict[str, _Place]) -> bool:
    """Whether nothing stands to the right of a box."""
    return all(other.right <= place.right for other in places.values() if other.y == place.y)


def _svg_path(path: str, dotted: bool) -> str:
    dash = ";stroke-dasharray:5 4" if dotted else ""
    return f'<path d="{path}" style="fill:none;stroke:{_EDGE};stroke-width:1.3{dash}" marker-end="url(#MARKER)"/>'


def _svg_text(
    x: float, y: float, text: str, fill: str, anchor: str = "start", *, size: int = 13, weight: int = 400
) -> str:
    style = f"fill:{fill};font-size:{size}px;font-weight:{weight}"
    if size < 13:
        style += f";stroke:{_PAPER};stroke-width:3;stroke-linejoin:round;paint-order:stroke"
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'
