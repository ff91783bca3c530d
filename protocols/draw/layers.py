"""Where things stand in a layered drawing: their order in a layer, then their x, so that lines are short and straight.

The method of Sugiyama, Tagawa and Toda (1981): every line joins neighbouring layers, dummies stand where it passes one;
barycentres order the layers; coordinates are least squares under the distances that must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Item", "Segment", "order", "spread"]

_SWEEPS = 12


@dataclass(eq=False, slots=True)
class Item:
    """Something that takes up room in a layer. Lengths are pixels."""

    kind: str
    layer: int
    """From the top."""
    height: float = 0
    left: float = 0
    """How far it reaches to the left of its anchor, to which lines lead."""
    right: float = 0
    margin: float = 8
    """Free room on both sides."""
    out: float = 0
    """Where lines leave, to the right of the anchor."""
    x: float = 0
    """Of the anchor."""
    y: float = 0
    """Of the upper edge."""
    ups: list[Segment] = field(default_factory=list)
    downs: list[Segment] = field(default_factory=list)

    @property
    def bottom(self) -> float:
        """y of the lower edge."""
        return self.y + self.height


@dataclass(eq=False, slots=True)
class Segment:
    """The part of a line between two neighbouring layers."""

    upper: Item
    lower: Item
    upper_port: float = 0
    """Where it leaves, to the right of where lines leave in the middle."""
    lower_port: float = 0
    """Where it arrives, to the right of the anchor."""

    @property
    def start(self) -> float:
        """x of the upper end."""
        return self.upper.x + self.upper.out + self.upper_port

    @property
    def end(self) -> float:
        """x of the lower end."""
        return self.lower.x + self.lower_port


def order(layers: list[list[Item]]) -> None:
    """Order the layers, in place, so that few lines cross.

    Args:
        layers: from the top; segments join items of neighbouring layers.
    """
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        for layer, fixed in _neighbouring(layers, downwards):
            places = {id(item): place for place, item in enumerate(fixed)}
            centres = {id(item): _centre(item, downwards, places, place) for place, item in enumerate(layer)}
            layer.sort(key=lambda item: centres[id(item)])
        if (count := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], count
    layers[:] = best


def _neighbouring(layers: list[list[Item]], downwards: bool) -> Iterable[tuple[list[Item], list[Item]]]:
    if downwards:
        return list(zip(layers[1:], layers, strict=False))
    return list(zip(layers[-2::-1], layers[:0:-1], strict=True))


def _centre(item: Item, downwards: bool, places: dict[int, int], own: int) -> float:
    ends = [segment.upper for segment in item.ups] if downwards else [segment.lower for segment in item.downs]
    return sum(places[id(end)] for end in ends) / len(ends) if ends else own


def _crossings(layers: Sequence[Sequence[Item]]) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        place = {id(item): number for number, item in enumerate(lower)}
        ends = [[place[id(segment.lower)] for segment in item.downs] for item in upper]
        for number, mine in enumerate(ends):
            count += sum(a > b for later in ends[number + 1 :] for a in mine for b in later)
    return count


def spread(layers: Sequence[Sequence[Item]]) -> None:
    """Set ``x`` of all items, in the order of their layers, so that lines are straight; the leftmost edge is at 0."""
    for sweep in range(_SWEEPS * 8):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _place(layer, [_wanted(item, downwards, both=sweep >= 2) for item in layer])
    leftmost = min(item.x - item.left for layer in layers for item in layer)
    for layer in layers:
        for item in layer:
            item.x -= leftmost


def _wanted(item: Item, downwards: bool, *, both: bool) -> tuple[float, float]:
    """The mean of the neighbours, those above or below first, then all of them, and how much that matters."""
    ups = [(s.start - s.lower_port, _weight(s)) for s in item.ups]
    downs = [(s.end - item.out - s.upper_port, _weight(s)) for s in item.downs]
    chosen = ups + downs if both else (ups if downwards else downs)
    weight = sum(weight for _, weight in chosen)
    return (sum(x * weight for x, weight in chosen) / weight, weight) if chosen else (item.x, 0.01)


def _weight(segment: Segment) -> float:
    """Long lines through dummies should be straight."""
    return (1.0, 2.0, 8.0)[(segment.upper.kind == "dummy") + (segment.lower.kind == "dummy")]


def _place(layer: Sequence[Item], wanted: Sequence[tuple[float, float]]) -> None:
    """Set x nearest to what is wanted, in the order of the layer and without overlap (pool adjacent violators)."""
    offset, offsets = 0.0, []
    for number, item in enumerate(layer):
        if number:
            before = layer[number - 1]
            offset += before.right + item.left + max(before.margin, item.margin)
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []
    for (target, weight), shift in zip(wanted, offsets, strict=True):
        mean, mass, count = target - shift, weight, 1
        while blocks and blocks[-1][0] > mean:
            earlier, other, size = blocks.pop()
            mean, mass, count = (mean * mass + earlier * other) / (mass + other), mass + other, count + size
        blocks.append((mean, mass, count))
    means = (mean for mean, _, count in blocks for _ in range(count))
    for item, mean, shift in zip(layer, means, offsets, strict=True):
        item.x = mean + shift
