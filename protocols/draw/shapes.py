"""Outlines of the kinds of nodes, so that they can be told apart without colours."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["outline"]

_CUT = 10.0


def outline(kind: str, x: float, y: float, width: float, height: float) -> str:
    """The outline as an SVG path."""
    left, top, right, bottom, c = x, y, x + width, y + height, _CUT
    if kind == "judge":  # an octagon
        return _polygon(
            (left + c, top), (right - c, top), (right, top + c), (right, bottom - c), (right - c, bottom),
            (left + c, bottom), (left, bottom - c), (left, top + c),
        )  # fmt: skip
    if kind == "verify":  # a hexagon
        middle = (top + bottom) / 2
        return _polygon(
            (left + c, top), (right - c, top), (right, middle), (right - c, bottom), (left + c, bottom), (left, middle)
        )
    if kind == "vote":  # a funnel
        return _polygon((left, top), (right, top), (right - c, bottom), (left + c, bottom))
    if kind == "select":  # a wedge
        return _polygon(
            (left, top), (right, top), (right, bottom - c), (right - c, bottom), (left + c, bottom), (left, bottom - c)
        )
    if kind == "compute":  # a parallelogram
        return _polygon((left + c, top), (right, top), (right - c, bottom), (left, bottom))
    if kind == "tool":  # double sides
        return (
            _polygon((left, top), (right, top), (right, bottom), (left, bottom))
            + f"M{left + 5:.5g} {top:.5g}V{bottom:.5g}M{right - 5:.5g} {top:.5g}V{bottom:.5g}"
        )
    if kind == "revise":  # a sheet with a folded corner
        fold = _polygon((left, top), (right - c, top), (right, top + c), (right, bottom), (left, bottom))
        return f"{fold}M{right - c:.5g} {top:.5g}V{top + c:.5g}H{right:.5g}"
    if kind == "critique":  # a speech bubble with a straight corner at the lower left
        return _rounded(left, top, right, bottom, 12, pointed=True)
    if kind == "human":  # a double line
        return _rounded(left, top, right, bottom, 12) + _rounded(left + 3, top + 3, right - 3, bottom - 3, 9)
    return _rounded(left, top, right, bottom, 5)


def _polygon(*points: Sequence[float]) -> str:
    return "M" + "L".join(f"{x:.5g} {y:.5g}" for x, y in points) + "Z"


def _rounded(left: float, top: float, right: float, bottom: float, r: float, *, pointed: bool = False) -> str:
    corner = (
        f"L{left:.5g} {bottom:.5g}"
        if pointed
        else f"H{left + r:.5g}Q{left:.5g} {bottom:.5g} {left:.5g} {bottom - r:.5g}"
    )
    return (
        f"M{left + r:.5g} {top:.5g}H{right - r:.5g}Q{right:.5g} {top:.5g} {right:.5g} {top + r:.5g}"
        f"V{bottom - r:.5g}Q{right:.5g} {bottom:.5g} {right - r:.5g} {bottom:.5g}{corner}"
        f"V{top + r:.5g}Q{left:.5g} {top:.5g} {left + r:.5g} {top:.5g}Z"
    )
