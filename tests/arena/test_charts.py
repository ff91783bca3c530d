import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.charts import Bar, Series, bar_chart, heat_map, interval_plot, line_chart, nice_ticks, reliability_chart
from arena.charts.drawing import tick_labels
from arena.protocols.errors import ConfigError

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>\" onload='x' & \u202e \x00 \ud800"


def texts(picture):
    return ["".join(node.itertext()) for node in ET.fromstring(picture).iter(f"{SVG}text")]


def test_ticks_are_round_numbers():
    assert nice_ticks(0, 1) == [0, 0.25, 0.5, 0.75, 1]
    assert nice_ticks(0.03, 0.97) == [0.25, 0.5, 0.75]
    assert nice_ticks(-12, 427) == [0, 100, 200, 300, 400]
    assert nice_ticks(0, 5, 6, whole=True) == [0, 1, 2, 3, 4, 5]
    assert nice_ticks(0, 2, 6, whole=True) == [0, 1, 2]
    assert nice_ticks(3, 3) == [3]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 9))
def test_ticks_lie_inside_and_are_few(low, size, count):
    ticks = nice_ticks(low, low + size, count)
    assert len(ticks) <= 2 * count + 1
    assert ticks == sorted(set(ticks))
    assert all(low - 1e-6 * size - 1e-6 <= tick <= low + size * (1 + 1e-6) + 1e-6 for tick in ticks)


def test_labels_of_an_axis_are_exact():
    assert tick_labels([0.6125, 0.615, 0.6175]) == ["0.6125", "0.615", "0.6175"]
    assert tick_labels([-0.25, 0.0, 0.25]) == ["−0.25", "0", "0.25"]
    assert tick_labels([0.875, 0.9], percent=True) == ["87.5 %", "90 %"]
    assert tick_labels([-200.0, 0.0, 1000.0]) == ["−200", "0", "1000"]
    assert tick_labels([2e6, 4e6]) == ["2e+06", "4e+06"]


def test_a_line_goes_where_its_data_go():
    picture = line_chart([Series("kl", [0, 1, 2], [0.0, 1.0, 0.5])], title="KL", y_range=(0, 1))
    root = ET.fromstring(picture)
    (path,) = [node.get("d") or "" for node in root.iter(f"{SVG}path")]
    points = [tuple(map(float, part.split())) for part in path.replace("M", "L").split("L")[1:]]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.15)
    assert y1 < y2 < y0  # SVG counts downward
    assert y2 == pytest.approx((y0 + y1) / 2, abs=0.15)
    grid = [float(node.get("y1") or 0) for node in root.iter(f"{SVG}line")]
    assert min(grid) == pytest.approx(y1, abs=0.15)
    assert max(grid) == pytest.approx(y0, abs=0.15)


def test_a_gap_breaks_the_line():
    picture = line_chart([Series("x", range(5), [1, 2, math.nan, 3, 4])], title="gap")
    (path,) = [node.get("d") or "" for node in ET.fromstring(picture).iter(f"{SVG}path")]
    assert path.count("M") == 2
    assert "nan" not in picture


def test_what_a_line_is_the_mean_of_is_drawn_thin_beneath_it_and_named_nowhere():
    courses = [([0, 1], [0.0, 2.0]), ([0, 1, 2], [4.0, 6.0, 8.0])]
    series = [Series("a", [0, 1], [2.0, 4.0], courses=courses), Series("b", [0, 1], [1.0, 1.0])]
    picture = line_chart(series, title="means")
    paths = list(ET.fromstring(picture).iter(f"{SVG}path"))
    assert [len(path.get("d").split("L")) for path in paths] == [2, 3, 2, 2]
    widths = [float(path.get("style").partition("stroke-width:")[2].partition(";")[0]) for path in paths]
    assert max(widths[:2]) < min(widths[2:])
    first, second, mean, _ = ([point.split() for point in path.get("d")[1:].split("L")] for path in paths)
    for low, middle, high in zip(first, mean, second, strict=False):
        assert low[0] == middle[0] == high[0]
        assert float(middle[1]) == pytest.approx((float(low[1]) + float(high[1])) / 2, abs=0.15)
    assert [words for words in texts(picture) if words.isalpha()] == ["a", "b"]
    assert "8" in texts(picture), "the axis holds the thin lines too"


def test_several_lines_have_a_legend_and_one_has_none():
    one = line_chart([Series("alone", [0, 1], [0, 1])], title="t")
    two = line_chart([Series("alone", [0, 1], [0, 1]), Series("other", [0, 1], [1, 0])], title="t")
    assert "alone" not in texts(one)
    assert {"alone", "other"} <= set(texts(two))


def test_rows_show_names_and_values():
    bars = [Bar("debate", 0.838, 0.81, 0.86), Bar("consultancy", 0.502, strong=False), Bar("nothing", math.nan)]
    for chart in (interval_plot, bar_chart):
        shown = texts(chart(bars, title="t", percent=True, reference=(0.5, "chance")))
        assert {"debate", "83.8 %", "consultancy", "50.2 %", "nothing", "–", "chance"} <= set(shown)


def test_heat_map_shows_every_pair_and_shortens_what_names_share():
    names = ["debater@v10", "debater@v11"]
    shown = texts(heat_map(names, names, [[math.nan, 0.25], [0.75, math.nan]], title="t", counts=[[0, 8], [8, 0]]))
    assert shown.count("–") == 2
    assert {"0.25", "0.75", "v10", "v11", "debater@v10"} <= set(shown)


@pytest.mark.parametrize(
    "picture",
    [
        line_chart(
            [Series(HOSTILE, [0, 1], [0, 1]), Series("b", [], [])], title=HOSTILE, y_label=HOSTILE, x_label=HOSTILE
        ),
        line_chart([], title="empty"),
        line_chart([Series("flat", [3], [7])], title="one point", reference=(7, HOSTILE)),
        line_chart([Series("band", [0, 1], [1, 2], [0, math.nan], [2, 3])], title="band"),
        interval_plot([Bar(HOSTILE, 1.0, 0.5, 1.5)], title=HOSTILE, reference=(1.0, HOSTILE)),
        interval_plot([Bar("far", 3.0, -9.0, 99.0)], title="cut", x_range=(0, 1)),
        interval_plot([], title="empty"),
        bar_chart([Bar("minus", -3.0), Bar("plus", 1e9)], title="wide"),
        heat_map([HOSTILE], [HOSTILE], [[0.5]], title=HOSTILE),
        heat_map([], [], [], title="empty"),
    ],
)
def test_every_picture_is_sound_and_inert(picture):
    root = ET.fromstring(picture)
    assert root.find(f"{SVG}title") is not None
    assert root.find(f"{SVG}desc") is not None
    picture.encode("utf-8")
    assert "nan" not in picture.replace("no data", "")
    assert all(not name.startswith("on") for node in root.iter() for name in node.attrib)
    assert not {node.tag for node in root.iter()} & {f"{SVG}script", f"{SVG}a", f"{SVG}image", f"{SVG}foreignObject"}
    assert "\u202e" not in picture


def test_unequal_lengths_are_told():
    with pytest.raises(ConfigError, match="'kl' has x, y"):
        line_chart([Series("kl", [0, 1], [0])], title="t")


def test_unequal_lengths_of_a_course_are_told():
    with pytest.raises(ConfigError, match="'kl' has x, y"):
        line_chart([Series("kl", [0], [1.0], courses=[([0, 1], [1.0])])], title="x")


def test_dots_of_a_calibrated_judge_lie_on_the_diagonal():
    picture = reliability_chart([0.6, 0.9], [0.6, 0.9], [1, 4], title="calibration")
    dots = [node.attrib for node in ET.fromstring(picture).iter(f"{SVG}circle")]
    (x0, y0), (x1, y1) = [(float(dot["cx"]), float(dot["cy"])) for dot in dots]
    diagonal = next(node for node in ET.fromstring(picture).iter(f"{SVG}line") if "dash" in (node.get("style") or ""))
    slope = (float(diagonal.get("y2") or 0) - float(diagonal.get("y1") or 0)) / (
        float(diagonal.get("x2") or 0) - float(diagonal.get("x1") or 0)
    )
    assert (y1 - y0) / (x1 - x0) == pytest.approx(slope, rel=0.01)
    # areas as the counts, but for a rim of 3
    radii = [float(dot["r"]) - 3 for dot in dots]
    assert radii[1] / radii[0] == pytest.approx(2.0)


def test_a_reliability_chart_without_samples_says_so():
    assert "no data" in texts(reliability_chart([], [], [], title="t"))
    with pytest.raises(ConfigError, match="of each bin"):
        reliability_chart([0.5], [], [1], title="t")
