"""Pictures of tournaments: groups of intervals, sequential tests, cycles, mixtures."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET

import pytest

from arena.charts import Bar, Cycle, Trace, cycle_chart, grouped_plot, heat_map, interval_plot, sprt_chart
from arena.protocols.errors import ConfigError

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert(1)</script>" onload=\'x\' style="fill:var(--x,url(//evil))" & \u202e \x00 \ud800'
WALD = math.log(0.95 / 0.05)  # Wald 1945, equation 3.23, alpha = beta = 0.05


def texts(picture: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(picture).iter(f"{SVG}text")]


def numbers(picture: str, tag: str, *names: str) -> list[tuple[float, ...]]:
    nodes = ET.fromstring(picture).iter(f"{SVG}{tag}")
    return [tuple(float(node.get(name) or "nan") for name in names) for node in nodes]


def test_rows_of_a_group_stand_in_one_line_and_have_its_colour() -> None:
    first = [Bar("ann", 1.0, 0.0, 2.0), Bar("bob", 3.0)]
    second = [Bar("bob", 2.0), Bar("ann", 1.5)]
    picture = grouped_plot({"left": first, "right": second}, title="t")
    assert [word for word in texts(picture) if word in ("ann", "bob", "left", "right")] == [
        "left",
        "right",
        "ann",
        "bob",
    ]
    dots = [
        (float(node.get("cx") or 0), float(node.get("cy") or 0), (node.get("style") or "")[:14])
        for node in ET.fromstring(picture).iter(f"{SVG}circle")
    ]
    (ann_left, ann_right), (bob_left, bob_right) = dots[:2], dots[2:]
    assert ann_left[2] == bob_left[2] != ann_right[2] == bob_right[2]
    assert ann_left[1] < ann_right[1] < bob_left[1] < bob_right[1]
    assert ann_left[0] < ann_right[0] < bob_right[0] < bob_left[0]
    # equal steps across for equal differences: 1, 1.5, 2, 3
    assert (bob_left[0] - bob_right[0]) == pytest.approx(2 * (ann_right[0] - ann_left[0]), abs=0.2)


@pytest.mark.parametrize(
    ("low", "high", "arrows"),
    [(0.2, 0.8, 0), (-5.0, 0.8, 1), (-5.0, 9.0, 2), (math.nan, 0.8, 1), (0.2, math.nan, 1), (math.nan, math.nan, 0)],
)
def test_an_interval_that_goes_on_ends_in_an_arrow(low: float, high: float, arrows: int) -> None:
    picture = interval_plot([Bar("a", 0.5, low, high)], title="t", x_range=(0.0, 1.0))
    assert len(numbers(picture, "polygon")) == arrows


def test_a_row_may_say_something_else_than_its_value() -> None:
    assert "+83" in texts(interval_plot([Bar("a", 83.2, shown="+83"), Bar("b", 2.0)], title="t"))


def test_a_test_ends_at_its_bound() -> None:
    picture = sprt_chart(
        [Trace("b over a", [1.0, 2.0, WALD]), Trace("c over a", [-1.0], decided=False)],
        lower=-WALD,
        upper=WALD,
        title="t",
        upper_label="better",
    )
    assert {"2.94", "−2.94", "0", "better", "H0"} <= set(texts(picture))
    (first, last) = numbers(picture, "circle", "cx", "cy")
    bounds = {round(y, 1) for (y,) in numbers(picture, "line", "y1")}
    assert last[1] not in bounds
    assert min(abs(first[1] - y) for y in bounds) < 0.11
    paths = [node.get("d") or "" for node in ET.fromstring(picture).iter(f"{SVG}path")]
    assert [path.count("L") for path in paths] == [3, 1]
    styles = [node.get("style") or "" for node in ET.fromstring(picture).iter(f"{SVG}circle")]
    assert "--paper" not in styles[0]
    assert "--paper" in styles[1]


def test_a_long_test_is_drawn_with_few_points_and_its_last() -> None:
    trace = Trace("b over a", [0.0] * 9_999 + [2.5])
    picture = sprt_chart([trace], lower=-3.0, upper=3.0, title="t")
    (path,) = [node.get("d") or "" for node in ET.fromstring(picture).iter(f"{SVG}path")]
    points = [tuple(map(float, part.split())) for part in path.lstrip("M").split("L")]
    assert len(points) < 500
    ((x, y),) = numbers(picture, "circle", "cx", "cy")
    assert points[-1] == (x, y)


def test_bounds_lie_around_nothing_known() -> None:
    with pytest.raises(ConfigError, match="a bound below 0"):
        sprt_chart([Trace("x", [1.0])], lower=1.0, upper=2.0, title="t")


def test_arrows_lead_from_winner_to_loser() -> None:
    picture = cycle_chart([Cycle(("rock", "paper", "scissors"), (0.6, 0.7, 0.8), 0.1, 0.02, 0.2)], title="t")
    shown = texts(picture)
    assert {"rock", "paper", "scissors", "60 %", "70 %", "80 %", "margin +0.1 [+0.02, +0.2]"} <= set(shown)
    places = numbers(picture, "circle", "cx", "cy")
    root = ET.fromstring(picture)
    heads = [
        [tuple(map(float, p.split(","))) for p in (n.get("points") or "").split()] for n in root.iter(f"{SVG}polygon")
    ]
    for index, head in enumerate(heads):  # the tip is nearest to the loser, the next in the cycle
        tip = head[0]
        nearest = min(range(3), key=lambda other: math.dist(tip, places[other]))
        assert nearest == (index + 1) % 3


def test_a_cycle_that_may_be_chance_is_grey() -> None:
    certain = cycle_chart([Cycle(("a", "b", "c"), (0.6,) * 3, 0.1, 0.01, 0.2)], title="t")
    chance = cycle_chart([Cycle(("a", "b", "c"), (0.6,) * 3, 0.1, -0.01, 0.2)], title="t")
    assert "stroke:var(--c1" in certain
    assert "stroke:var(--c1" not in chance


def test_a_cycle_needs_three() -> None:
    with pytest.raises(ConfigError, match="three agents"):
        cycle_chart([Cycle(("a", "b"), (0.6, 0.6))], title="t")


def test_shares_are_bars_of_that_length() -> None:
    names = ["a", "b", "c"]
    picture = heat_map(names, names, [[0.5] * 3] * 3, title="t", shares=[0.5, 0.25, math.nan], shares_label="mixture")
    assert {"mixture", "50 %", "25 %"} <= set(texts(picture))
    cells = 9
    bars = [width for (width,) in numbers(picture, "rect", "width")][cells:]
    assert len(bars) == 2
    assert bars[0] / bars[1] == pytest.approx(2.0, abs=0.05)


def test_a_map_of_many_stays_inside_of_the_picture_and_its_labels_apart() -> None:
    names = [f"agent-{number}" for number in range(40)]
    picture = heat_map(names, names, [[0.5] * 40] * 40, title="t", shares=[1 / 40] * 40)
    right = [x + width for x, width in numbers(picture, "rect", "x", "width")]
    assert max(right) <= 460
    root = ET.fromstring(picture)
    turned = [float(node.get("x") or 0) for node in root.iter(f"{SVG}text") if node.get("transform")]
    assert min(b - a for a, b in itertools.pairwise(turned)) >= 12


@pytest.mark.parametrize(
    "picture",
    [
        grouped_plot(
            {HOSTILE: [Bar(HOSTILE, 1.0, 0.5, 1.5)], "b": [Bar(HOSTILE, 2.0)]}, title=HOSTILE, x_label=HOSTILE
        ),
        grouped_plot({}, title="empty"),
        interval_plot([Bar("a", 1.0, shown=HOSTILE)], title="t"),
        sprt_chart([Trace(HOSTILE, [1.0]), Trace("b", [])], lower=-1, upper=1, title=HOSTILE, lower_label=HOSTILE),
        sprt_chart([], lower=-1, upper=1, title="empty"),
        cycle_chart(
            [Cycle((HOSTILE,) * 3, (0.6, math.nan, 0.6)), Cycle(("a", "b", "c", "d"), (0.6,) * 4)], title=HOSTILE
        ),
        cycle_chart([], title="empty"),
        heat_map([HOSTILE], [HOSTILE], [[0.5]], title="t", shares=[1.0], shares_label=HOSTILE),
    ],
)
def test_every_picture_is_sound_and_inert(picture: str) -> None:
    root = ET.fromstring(picture)
    assert root.find(f"{SVG}title") is not None
    picture.encode("utf-8")
    assert not re.search(r"\bnan\b", picture)
    assert all(not name.startswith("on") for node in root.iter() for name in node.attrib)
    assert all("url(" not in (node.get("style") or "") for node in root.iter())
    assert not {node.tag for node in root.iter()} & {f"{SVG}script", f"{SVG}a", f"{SVG}image", f"{SVG}foreignObject"}
    assert "\u202e" not in picture
