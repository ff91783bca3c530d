"""Geometry of a picture: where its boxes, bars, labels and lines go. Lengths are pixels, y grows downwards.

Rows of boxes alternate with layers of bars (several boxes that are waited for, or that begin together) and of labels.
Edges that go back run in lanes along the right side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from arena.protocols.draw.layers import Item, Segment, order, spread
from arena.protocols.draw.lettering import text_width, wrap_text
from arena.protocols.draw.picture import Arrow, Box, Picture
from arena.protocols.graph import END, START

__all__ = ["DOT", "FACT", "LABEL", "LINE", "NAME", "STACK", "TAG", "Drawing", "Label", "Line", "PlacedBox", "lay_out"]

NAME, TAG, FACT, LABEL, LINE = 13.5, 10.0, 12.0, 12.0, 16.0
"""Sizes of letters, and the height of a line."""
STACK = 4.0
"""How far each card behind a counted box stands out."""
DOT = 9.0
"""Diameter of the dots at which a frame is entered and left."""
_FACT_WIDTH, _LABEL_WIDTH = 250.0, 260.0
_SIDE = 18.0  # room inside a box, left and right, which slanted shapes use
_LANE, _TRACK = 16.0, 12.0
_HEAD = 9.0  # straight end of a line, so that arrow heads stand upright
_FORK, _BOX, _JOIN, _LABEL = range(4)


_End: TypeAlias = "Segment | _Loop"


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box with its place and the lines that it holds."""

    box: Box
    x: float
    """Left edge."""
    y: float
    width: float
    height: float
    lines: tuple[str, ...] = ()
    inner: Drawing | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """Text of a line; ``x`` is its middle, or its left end where it stands beside a lane."""

    lines: tuple[str, ...]
    x: float
    y: float
    """Upper edge."""
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A path in the syntax of SVG."""

    path: str
    guarded: bool
    arrow: bool


@dataclass(slots=True)
class Drawing:
    """A picture with all its places; its upper left corner is at 0, 0."""

    width: float = 0
    height: float = 0
    entry: float = 0
    """x at which it is entered, at its upper edge."""
    exit: float = 0
    """x at which it is left, at its lower edge."""
    boxes: list[PlacedBox] = field(default_factory=list)
    bars: list[tuple[str, float, float, float, float]] = field(default_factory=list)
    """``all``, ``any`` or ``fork``; left edge, upper edge, width, height."""
    labels: list[Label] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Link:
    """An edge, or part of one, that goes down."""

    tail: Item
    head: Item
    guarded: bool
    arrow: bool
    segments: list[Segment] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Loop:
    """An edge that goes back."""

    arrow: Arrow
    tail: Item
    head: Item
    lines: tuple[str, ...]
    out: float = 0
    """y of the way to the lane."""
    back: float = 0
    """y of the way from it."""
    out_port: float = 0
    """Where it leaves the lower edge of its tail, to the right of the middle."""
    back_port: float = 0
    """Where it arrives at the upper edge of its head."""

    @property
    def width(self) -> float:
        return max((text_width(line, LABEL) for line in self.lines), default=0)


def lay_out(picture: Picture) -> Drawing:
    """Place everything."""
    return _Layout(picture).drawing


class _Layout:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.drawing = Drawing()
        self.cards = {key: _card(box, nested=bool(picture.scope)) for key, box in picture.boxes.items()}
        self.slots: dict[tuple[int, int], list[Item]] = defaultdict(list)
        self.boxes: dict[str, Item] = {}
        self.bars: dict[tuple[str, tuple[str, ...]], Item] = {}
        self.labels: dict[int, tuple[Item, tuple[str, ...]]] = {}
        self.links: list[_Link] = []
        self.loops: list[_Loop] = []
        self.own: dict[str, _Loop] = {}
        """Loops of a box to itself, which take room beside it."""
        self._collect()
        self._build_layers()
        order(self.layers)
        spread(self.layers)
        self._assign_ports()
        spread(self.layers)
        self._set_heights()
        self._draw()

    # -- what there is

    def _collect(self) -> None:
        for row, keys in enumerate(self.picture.rows):
            for key in keys:
                self.boxes[key] = self._add(row, _BOX, self.cards[key].item())
        for arrow in self.picture.arrows:
            tail = self._tail(arrow)
            if self._is_one_bar(arrow):
                for key in arrow.targets:
                    self._link(tail, self.boxes[key], guarded=False, arrow=True)
                continue
            head = self._head(arrow)
            lines = tuple(line for part in arrow.label for line in wrap_text(part, LABEL, _LABEL_WIDTH))
            if self.picture.goes_back(arrow):
                self._add_loop(_Loop(arrow, tail, head, lines))
            elif lines:
                self._link(tail, self._label(arrow, lines), arrow.guarded, arrow=False)
                self._link(self._label(arrow, lines), head, arrow.guarded, arrow=head.kind == "box")
            else:
                self._link(tail, head, arrow.guarded, arrow=head.kind == "box")

    def _is_one_bar(self, arrow: Arrow) -> bool:
        """Whether the bar that waits for the sources can be the one at which the targets begin."""
        if arrow.any or arrow.label or len(arrow.sources) < 2 or len(arrow.targets) < 2:
            return False
        alike = [one for one in self.picture.arrows if arrow.sources == one.sources or arrow.targets == one.targets]
        return len(alike) == 1 and not self.picture.goes_back(arrow)

    def _add(self, row: int, slot: int, item: Item) -> Item:
        item.layer = 4 * row + slot
        self.slots[row, slot].append(item)
        return item

    def _link(self, tail: Item, head: Item, guarded: bool, *, arrow: bool) -> None:
        self.links.append(_Link(tail, head, guarded, arrow))

    def _tail(self, arrow: Arrow) -> Item:
        """Where an arrow begins: a box, or the bar that waits for several."""
        if len(arrow.sources) == 1:
            return self.boxes[arrow.sources[0]]
        kind = "any" if arrow.any else "all"
        bar = self.bars.get((kind, arrow.sources))
        if bar is None:
            row = max(self.picture.row[key] for key in arrow.sources)
            bar = self.bars[kind, arrow.sources] = self._add(row, _JOIN, _bar(kind, len(arrow.sources)))
            for key in arrow.sources:
                self._link(self.boxes[key], bar, guarded=False, arrow=False)
        return bar

    def _head(self, arrow: Arrow) -> Item:
        """Where an arrow ends: a box, or the bar at which several begin together."""
        if len(arrow.targets) == 1:
            return self.boxes[arrow.targets[0]]
        bar = self.bars.get(("fork", arrow.targets))
        if bar is None:
            row = min(self.picture.row[key] for key in arrow.targets)
            bar = self.bars["fork", arrow.targets] = self._add(row, _FORK, _bar("fork", len(arrow.targets)))
            for key in arrow.targets:
                self._link(bar, self.boxes[key], guarded=False, arrow=True)
        return bar

    def _label(self, arrow: Arrow, lines: tuple[str, ...]) -> Item:
        if id(arrow) not in self.labels:
            half = max(text_width(line, LABEL) for line in lines) / 2 + 4
            row = max(self.picture.row[key] for key in arrow.sources)
            item = self._add(row, _LABEL, Item("label", 0, len(lines) * LINE + 2, half, half, 12))
            self.labels[id(arrow)] = item, lines
        return self.labels[id(arrow)][0]

    def _add_loop(self, loop: _Loop) -> None:
        key = loop.arrow.sources[0]
        if loop.tail is loop.head and key not in self.own and self.picture.boxes[key].inner is None:
            self.own[key] = loop
            loop.tail.right += 2 * _LANE + loop.width
        else:
            self.loops.append(loop)

    # -- layers

    def _build_layers(self) -> None:
        used = sorted(4 * row + slot for (row, slot), items in self.slots.items() if items)
        number = {layer: place for place, layer in enumerate(used)}
        self.layers: list[list[Item]] = [[] for _ in used]
        for (row, slot), items in sorted(self.slots.items()):
            for item in items:
                item.layer = number[4 * row + slot]
                self.layers[item.layer].append(item)
        for link in self.links:
            passed = [Item("dummy", layer, 0, 1, 1, 16) for layer in range(link.tail.layer + 1, link.head.layer)]
            for dummy in passed:
                self.layers[dummy.layer].append(dummy)
            link.segments = [Segment(above, below) for above, below in pairwise([link.tail, *passed, link.head])]
            for segment in link.segments:
                segment.upper.downs.append(segment)
                segment.lower.ups.append(segment)

    def _set_heights(self) -> None:
        """Set y of all items: layers below each other, with room between them for what goes to the lanes and back."""
        self.tops: list[float] = []
        self.bottoms: list[float] = []
        self.outs: dict[int, list[_Loop]] = defaultdict(list)
        self.backs: dict[int, list[_Loop]] = defaultdict(list)
        for loop in self.loops:
            if not self._at_side(loop.tail):
                self.outs[loop.tail.layer].append(loop)
            if not self._at_side(loop.head):
                self.backs[loop.head.layer].append(loop)
        y = 0.0
        for number, layer in enumerate(self.layers):
            y += self._gap(number)
            plain = [item for item in layer if item.kind == "box"]
            for item in plain:
                item.height = max(other.height for other in plain)
            height = max(item.height for item in layer)
            for item in layer:
                item.y = y if item.kind == "dummy" else y + (height - item.height) / 2
                item.height = height if item.kind == "dummy" else item.height
            self.tops.append(y)
            self.bottoms.append(y + height)
            y += height
        self.drawing.height = y

    def _gap(self, number: int) -> float:
        """Room above a layer: more where lines go far to the side."""
        if number == 0:
            return _TRACK * len(self.backs[0])
        above = self.layers[number - 1]
        boxes = sum(any(item.kind in ("box", "use") for item in layer) for layer in (above, self.layers[number]))
        far = max((abs(segment.start - segment.end) for item in above for segment in item.downs), default=0)
        tracks = len(self.outs[number - 1]) + len(self.backs[number])
        return (14, 24, 38)[boxes] + min(24.0, far / 12) + _TRACK * tracks

    def _at_side(self, item: Item) -> bool:
        """Whether a loop may begin or end at the right side of an item, because nothing stands beside it."""
        if item.kind not in ("box", "all", "any", "fork"):
            return False
        layer = self.layers[item.layer]
        alone = all(other.kind == "dummy" for other in layer[layer.index(item) + 1 :])
        return alone and not any(self.boxes[key] is item for key in self.own)

    # -- drawing

    def _draw(self) -> None:
        drawing = self.drawing
        for key, item in self.boxes.items():
            drawing.boxes.append(self._placed(key, item))
        for (kind, _), item in self.bars.items():
            drawing.bars.append((kind, item.x - item.left, item.y, item.left + item.right, item.height))
        for item, lines in self.labels.values():
            drawing.labels.append(Label(lines, item.x, item.y))
        for link in self.links:
            drawing.lines.append(self._line(link))
        for loop in self.own.values():
            self._draw_own(loop)
        drawing.width = max(item.x + item.right for layer in self.layers for item in layer)
        self._draw_loops()
        drawing.entry = self.boxes[START].x
        drawing.exit = self.boxes[END].x

    def _placed(self, key: str, item: Item) -> PlacedBox:
        card, box = self.cards[key], self.picture.boxes[key]
        height = item.height - (card.stack if card.inner is None else 0)
        return PlacedBox(box, item.x - item.left, item.y, card.width, height, card.lines, card.inner)

    def _assign_ports(self) -> None:
        """Set where lines leave and enter a box or bar: side by side, in the order of where they lead."""
        for item in (*self.boxes.values(), *self.bars.values()):
            step = {"box": 18.0, "use": 0.0}.get(item.kind, 11.0)
            out = [loop for loop in self.loops if loop.tail is item and not self._at_side(item)]
            for place, leaving in _side_by_side([*sorted(item.downs, key=lambda s: s.end), *out], item, step):
                if isinstance(leaving, Segment):
                    leaving.upper_port = place
                else:
                    leaving.out_port = place
            back = [loop for loop in self.loops if loop.head is item and not self._at_side(item)]
            for place, entering in _side_by_side([*sorted(item.ups, key=lambda s: s.start), *back], item, step):
                if isinstance(entering, Segment):
                    entering.lower_port = place
                else:
                    entering.back_port = place

    def _line(self, link: _Link) -> Line:
        path = f"M{link.segments[0].start:.5g} {link.tail.bottom:.5g}"
        for segment in link.segments:
            start, end, below = segment.start, segment.end, segment.lower
            top, bottom = self.tops[below.layer], self.bottoms[segment.upper.layer]
            if abs(end - start) >= 0.5:
                top -= _HEAD if below is link.head and link.arrow else 0
                middle = (bottom + top) / 2
                path += f"V{bottom:.5g}C{start:.5g} {middle:.5g} {end:.5g} {middle:.5g} {end:.5g} {top:.5g}"
            path += f"V{below.bottom if below.kind == 'dummy' else below.y:.5g}"
        return Line(path, link.guarded, link.arrow)

    def _draw_own(self, loop: _Loop) -> None:
        """A loop of a box to itself, in the room beside it."""
        item, stack = loop.tail, self.cards[loop.arrow.sources[0]].stack
        right, out, back = item.x + item.left + stack, item.y + item.height * 0.74, item.y + item.height * 0.26
        self.drawing.lines.append(Line(_lane_path(right, out, right + _LANE, right, back), loop.arrow.guarded, True))
        y = (out + back - len(loop.lines) * LINE) / 2
        self.drawing.labels.append(Label(loop.lines, right + _LANE + 6, y, beside=True))

    def _draw_loops(self) -> None:
        """The short ones first and innermost; no two share a lane where they pass each other."""
        for loop in self.loops:
            loop.out, loop.back = self._level(loop, down=True), self._level(loop, down=False)
        taken: list[tuple[float, float, float]] = []
        for loop in sorted(self.loops, key=lambda loop: loop.out - loop.back):
            height = len(loop.lines) * LINE
            middle = self._free_middle(loop, height)
            top, bottom = min(loop.back, middle - height / 2) - 3, max(loop.out, middle + height / 2) + 3
            layers = self.layers[loop.head.layer : loop.tail.layer + 1]
            x = max(item.x + item.right for layer in layers for item in layer) + _LANE
            for left_over in sorted(taken):
                if left_over[1] < bottom and left_over[2] > top:
                    x = max(x, left_over[0] + _LANE)
            right = x + (loop.width + 6 if loop.lines else 0)
            taken.append((right, top, bottom))
            self.drawing.lines.append(self._lane(loop, x))
            self.drawing.labels.append(Label(loop.lines, x + 6, middle - height / 2, beside=True))
            self.drawing.width = max(self.drawing.width, right)
            self.drawing.height = max(self.drawing.height, bottom)

    def _level(self, loop: _Loop, *, down: bool) -> float:
        """y of the horizontal way between an item and the lane."""
        item = loop.tail if down else loop.head
        if self._at_side(item):
            if item.kind != "box":
                return item.y + item.height / 2
            beside = [other for other in self.loops if (other.tail if down else other.head) is item]
            step = min(9.0, item.height / 4 / len(beside))
            return item.y + item.height * (0.72 if down else 0.28) + step * beside.index(loop) * (-1 if down else 1)
        if down:
            return self.bottoms[item.layer] + _TRACK * (0.75 + self.outs[item.layer].index(loop))
        return self.tops[item.layer] - _TRACK * (1.25 + self.backs[item.layer].index(loop))

    def _free_middle(self, loop: _Loop, height: float) -> float:
        """y of the middle of the label: near that of the lane, where no other loop's way crosses it."""
        ways = [y for other in self.loops if other is not loop for y in (other.out, other.back)]
        middle = (loop.out + loop.back) / 2
        shifts = sorted((step * 4 for step in range(-12, 13)), key=abs)
        low, high = height / 2, self.drawing.height - height / 2
        inside = (min(max(low, middle + shift), high) for shift in shifts)
        return next((m for m in inside if all(abs(m - y) > height / 2 + 3 for y in ways)), middle)

    def _lane(self, loop: _Loop, lane: float) -> Line:
        tail, head = loop.tail, loop.head
        if self._at_side(tail):
            x0, start = self._right(tail), ""
        else:
            x0 = tail.x + tail.out + loop.out_port
            start = (
                f"M{x0:.5g} {tail.bottom:.5g}V{loop.out - 6:.5g}Q{x0:.5g} {loop.out:.5g} {x0 + 6:.5g} {loop.out:.5g}"
            )
        if self._at_side(head):
            x1, end = self._right(head), ""
        else:
            x1 = head.x + loop.back_port
            end = f"Q{x1:.5g} {loop.back:.5g} {x1:.5g} {loop.back + 6:.5g}V{head.y:.5g}"
        path = _lane_path(x0, loop.out, lane, x1 + (6 if end else 0), loop.back)
        return Line((start + path[path.index("H") :] if start else path) + end, loop.arrow.guarded, True)

    def _right(self, item: Item) -> float:
        return item.x + item.right


def _lane_path(x0: float, y0: float, lane: float, x1: float, y1: float) -> str:
    """From (x0, y0) to the right, up along the lane, and back to (x1, y1)."""
    bend = min(10.0, abs(y0 - y1) / 2)
    return (
        f"M{x0:.5g} {y0:.5g}H{lane - bend:.5g}Q{lane:.5g} {y0:.5g} {lane:.5g} {y0 - bend:.5g}"
        f"V{y1 + bend:.5g}Q{lane:.5g} {y1:.5g} {lane - bend:.5g} {y1:.5g}H{x1:.5g}"
    )


def _side_by_side(ends: Sequence[_End], item: Item, step: float) -> Iterator[tuple[float, _End]]:
    for place, end in enumerate(ends):
        yield (place - (len(ends) - 1) / 2) * min(step, (2 * item.left - 16) / len(ends)), end


def _bar(kind: str, count: int) -> Item:
    half = 17.0 if kind == "any" else max(20.0, 6.5 * count + 6)
    return Item(kind, 0, 15.0 if kind == "any" else 5.0, half, half, 20)


@dataclass(frozen=True, slots=True)
class _Card:
    """How much room a box needs."""

    kind: str
    width: float
    height: float
    lines: tuple[str, ...] = ()
    inner: Drawing | None = None
    entry: float = 0
    exit: float = 0
    stack: float = 0
    """How far the cards of a counted role stand out to the right and below."""

    def item(self) -> Item:
        return Item(
            self.kind,
            0,
            self.height + (self.stack if self.inner is None else 0),
            self.entry,
            self.width - self.entry + self.stack,
            28,
            self.exit - self.entry,
        )


def _card(box: Box, *, nested: bool) -> _Card:
    if box.inner is not None:
        return _frame(box, lay_out(box.inner))
    if box.kind in (START, END):
        width, height = (DOT, DOT) if nested else (54, 24)
        return _Card("use" if nested else "box", width, height, (), None, width / 2, width / 2)
    lines = tuple(line for fact in box.facts for line in wrap_text(fact, FACT, _FACT_WIDTH))
    many = f" ×{box.count}" if box.count > 1 else ""
    head = text_width(box.name + many, NAME, bold=True) + 16 + text_width(box.kind, TAG) * 1.15
    width = max(head, *(text_width(line, FACT) for line in lines), 104) + 2 * _SIDE
    return _Card("box", width, 34 + LINE * len(lines) + 4, lines, None, width / 2, width / 2, _stack(box))


def _frame(box: Box, inner: Drawing) -> _Card:
    """The title stands left of where the frame is entered."""
    title = text_width(box.name, NAME, bold=True) + 14 + text_width(box.kind, TAG) * 1.15
    pad = max(14.0, title + 26 - inner.entry)
    width = pad + inner.width + 16
    return _Card("use", width, inner.height, (), inner, pad + inner.entry, pad + inner.exit, _stack(box))


def _stack(box: Box) -> float:
    return 2 * STACK if box.count > 1 else 0
