"""What the report of a tournament says: words, tables and pictures from its stored series."""

from __future__ import annotations

import copy
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from arena.protocols.errors import ConfigError, StoreError
from arena.ratings import CrossPlay, Rating
from arena.report import Part, ReportData, Section, Table, render_report, section_figures, write_figures
from arena.report.figures import slug
from arena.report.tournaments import analysis_parts, how_rated, mixture_of, tournament_lead

HOSTILE = '<script>alert(1)</script>" onload=\'x\' style="fill:var(--x,url(//evil))" & {{ 7 * 7 }} \u202e \x00 \ud800'

DRAWN = {"svg", "title", "desc", "g", "rect", "line", "path", "circle", "polygon", "text"}


def interval(value: float | None, low: float | None, high: float | None, n: int = 40) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


def rows(*named: tuple[str, float]) -> list[dict[str, Any]]:
    rest = {"games": 40, "wins": 20, "ties": 2, "losses": 18, "rank": 1, "rank_low": 1, "rank_high": 2}
    return [{"name": name, "elo": elo, "low": elo - 30, "high": elo + 30, **rest} for name, elo in named]


def compared(first: str, second: str, difference: Any, p: float | None, p_adjusted: float | None) -> dict[str, Any]:
    named = {"first": first, "second": second, "difference": difference}
    return {**named, "p": p, "p_adjusted": p_adjusted, "method": "holm"}


def analysis(a: str = "ann", b: str = "bob", c: str = "cat") -> dict[str, Any]:
    """Every key that a tournament may store, with numbers that are easy to find again."""
    test = {"elo0": 0, "elo1": 50, "alpha": 0.05, "beta": 0.1, "lower": -2.25, "upper": 2.89}
    return {
        "compared": [
            compared(a, b, interval(-12, -50, 31), 0.4, 0.8),
            compared(a, c, interval(203, 150, 260), 0.0002, 0.0006),
            compared(b, c, interval(None, None, None), None, None),
        ],
        "sprt": [
            {"first": a, "second": b, "decision": "H1", "pairs": 3, "trace": [1.0, 2.0, 3.0], **test},
            {"first": a, "second": c, "decision": None, "pairs": 0, "trace": [], **test},
        ],
        "roles": {"advantage": interval(18, -4, 41), "ratings": {a: rows((a, 7), (b, -7)), "right": rows((a, 9))}},
        "protocols": {"debate": {"ratings": rows((a, 5)), "note": ""}, c: {"ratings": rows((a, 6)), "note": "a prior"}},
        "payoffs": {
            "names": [a, b, c],
            "scores": [[0.5, 0.6, 0.3], [0.4, 0.5, 0.71], [0.7, 0.29, 0.5]],
            "games": [[0, 8, 8], [8, 0, 8], [8, 8, 0]],
            "nash": {a: 0.25, b: 0.75, c: 0.0},
            "ratings": {a: 0.5, b: 0.5, c: 0.41},
            "value": 0.5,
            "transitive_share": 0.93,
            "p_transitive": 0.0004,
            "intransitive_share": 0.1,
            "cycles": [{"agents": [a, b, c], "margin": 0.1, "low": 0.02, "high": 0.2}],
            "note": "dan never met cat",
        },
        "arms": [
            {"arm": "oracle", "accuracy": interval(0.9, 0.8, 0.95), "tokens": 0.0, "undecidable": 0.0},
            {"arm": a, "accuracy": interval(0.7, 0.6, 0.8), "tokens": 812.4, "undecidable": 0.05},
            {"arm": "blind", "accuracy": None, "tokens": None, "undecidable": 1.0},
        ],
        "gap_recovered": [
            {"arm": a, "value": 0.62, "low": -9.0, "high": 0.9, "note": ""},
            {"arm": b, "value": None, "low": None, "high": None, "note": "the gap may be nought"},
        ],
        "arms_compared": [
            {**compared(a, "blind", interval(0.2, 0.1, 0.3), 0.01, 0.02), "same_tokens": False},
        ],
        "truth": [{"agent": a, "right": interval(0.72, 0.6, 0.8), "wrong": None, "accuracy": interval(0.66, 0.5, 0.7)}],
        "persuasion_correlation": interval(0.5, -0.1, 0.9),
        "honesty": {"honest": interval(0.61, 0.5, 0.7), "dishonest": interval(0.39, 0.3, 0.5)},
        "judges": [
            {
                "judge": a, "accuracy": interval(0.7, 0.6, 0.8), "undecidable": 0.0, "ratings": rows((a, 1)),
                "mcnemar_p": None,
            },
            {
                "judge": "strict", "accuracy": None, "undecidable": 0.25, "ratings": rows((a, 2)), "mcnemar_p": 0.031,
                "p_adjusted": 0.04, "difference": interval(0.05, 0.01, 0.1),
            },
        ],
        "calibration": [{"low": 0.6, "high": 0.7, "count": 9, "confidence": 0.66, "accuracy": 0.5}],
        "covariates": {"names": [a, "quotes"], "coefficients": [interval(41, 18, 64), None], "ratings": rows((a, 3))},
        "online": {"elo": {a: 1040.6, b: 959.4}, "openskill": {a: {"mu": 25.5, "sigma": 1.25}}},
        "rounds": [
            [{"first": a, "second": b, "score": 2.5, "games": 4}],
            [{"first": a, "second": c, "score": 1.0, "games": 3}],
        ],
        "notes": ["a note"],
    }  # fmt: skip


def part(title: str, found: dict[str, Any] | None = None) -> Part:
    (one,) = [each for each in analysis_parts(found or analysis(), rows(("ann", 0))) if each.title == title]
    return one


def cells(table: Table) -> list[list[Any]]:
    return [list(row) for row in table.rows]


def test_a_tournament_without_analysis_has_no_parts() -> None:
    assert analysis_parts({}) == []
    empty: dict[str, Any] = dict.fromkeys(analysis())
    assert analysis_parts(empty) == []


def test_comparisons_stand_in_the_order_of_their_evidence() -> None:
    found = part("Who is better than whom")
    assert found.lead == "1 of 3 pairs differ at 5 % under Holm's correction for 3 comparisons."
    assert cells(found.tables[0]) == [
        ["ann", "cat", "+203 [+150, +260]", "< 0.001", "< 0.001"],
        ["bob", "ann", "+12 [−31, +50]", "0.400", "0.800"],
        ["bob", "cat", "–", "–", "–"],
    ]


def test_sequential_tests_say_who_was_asked_to_be_better() -> None:
    found = part("Is it better? Sequential tests")
    assert "1 of 2 pairings were decided" in found.lead
    (first, second) = cells(found.tables[0])
    assert first == ["bob", "ann", "yes", 3, 3.0]
    assert second[:4] == ["cat", "ann", "open", 0]
    assert math.isnan(second[4])
    assert "probability 0.05 at most, not better with 0.1" in found.note
    (figure,) = found.figures
    assert "better (H1: +50 Elo)" in figure.svg
    assert "bob over ann" in figure.svg


def test_many_sequential_tests_make_several_pictures() -> None:
    found = analysis()
    found["sprt"] = [{**found["sprt"][0], "second": f"b{number}"} for number in range(14)]
    assert len(part("Is it better? Sequential tests", found).figures) == 3


def test_seats_say_whether_the_first_is_worth_something() -> None:
    found = analysis()
    assert part("Seats", found).lead == "The first seat is worth +18 [−4, +41] Elo points, which may be chance."
    found["roles"]["advantage"] = interval(30, 4, 56)
    assert part("Seats", found).lead == "The first seat is worth +30 [+4, +56] Elo points."


def test_the_mixture_that_nobody_beats_is_told_with_its_cycles() -> None:
    found = part("Mixture and cycles")
    assert found.lead == (
        "A mixture of 2 agents is beaten by nobody. Differences of ratings explain 93 % of the results; what they "
        "leave is more than chance (p < 0.001). "
        "10 % of the triples of agents go round in a circle; by chance 25 % would. "
        "The interval of its one cycle lies above 0."
    )
    assert cells(found.tables[0])[0] == ["bob", "75.0", 0.5]
    assert "dan never met cat" in found.note
    (figure,) = found.figures
    assert all(
        f">{share} %<" in figure.svg for share in (60, 71, 70)
    )  # each against the next, the last against the first
    assert mixture_of(analysis()) == {"ann": 0.25, "bob": 0.75, "cat": 0.0}


def test_cycles_that_may_be_chance_are_told_apart() -> None:
    found = analysis()
    (cycle,) = found["payoffs"]["cycles"]
    found["payoffs"]["cycles"] = [cycle, cycle, {**cycle, "low": -0.01}]
    assert "The intervals of 2 of its 3 strongest cycles lie above 0." in part("Mixture and cycles", found).lead
    found["payoffs"]["cycles"] = [{**cycle, "low": -0.01}]
    assert "Its cycles may be chance." in part("Mixture and cycles", found).lead


def test_what_ratings_leave_may_be_chance() -> None:
    found = analysis()
    found["payoffs"]["p_transitive"] = 0.3
    assert "93 % of the results; what they leave can be chance (p = 0.300)." in part("Mixture and cycles", found).lead


def test_one_who_is_beaten_by_nobody_is_named() -> None:
    found = analysis()
    found["payoffs"] |= {
        "nash": {"ann": 1.0, "bob": 0.0},
        "cycles": [],
        "transitive_share": None,
        "intransitive_share": None,
    }
    assert part("Mixture and cycles", found).lead == "ann alone is beaten by nobody."


def test_arms_lie_between_blind_and_oracle() -> None:
    found = part("Accuracy of the verdicts")
    assert cells(found.tables[0]) == [
        ["blind", "–", "–", "100.0", "–"],
        ["ann", "70.0 [60.0, 80.0]", "812", "5.0", "62.0 [−900.0, 90.0]"],
        ["oracle", "90.0 [80.0, 95.0]", "0", "0.0", "–"],
    ]
    assert found.note == "bob: the gap may be nought."
    assert cells(found.tables[1]) == [["ann", "blind", "20.0 [10.0, 30.0]", "0.010", "0.020", "no"]]
    accuracy, gap = found.figures
    assert accuracy.name == "accuracy"
    assert "100 %" in gap.svg
    assert "−900 %" not in gap.svg  # the axis is cut, an arrow says so
    assert gap.svg.count("<polygon") == 1


def test_persuasion_is_set_against_truth() -> None:
    found = part("Persuasion and truth")
    assert found.lead.startswith("Who argued the right answer won 61.0 [50.0, 70.0] % of the games.")
    assert "r = +0.50 [−0.10, +0.90]." in found.lead
    assert cells(found.tables[0]) == [["ann", "72.0 [60.0, 80.0]", "–", "66.0 [50.0, 70.0]"]]


def test_other_judges_are_compared_with_the_first() -> None:
    found = part("Under other judges")
    assert cells(found.tables[0]) == [
        ["ann", "70.0 [60.0, 80.0]", "0.0", "–", "–", "–"],
        ["strict", "–", "25.0", "−5.0 [−10.0, −1.0]", "0.031", "0.040"],
    ]


def test_style_is_shown_with_the_ratings_without_it() -> None:
    found = part("Ratings without style")
    assert cells(found.tables[0]) == [["ann", "+41 [+18, +64]"], ["quotes", "–"]]
    assert [figure.name for figure in found.figures] == ["style", "without-style"]


def test_rounds_are_listed_where_there_are_several() -> None:
    found = analysis()
    assert cells(part("Rounds", found).tables[0]) == [[1, "ann", "bob", "2.5 – 1.5"], [2, "ann", "cat", "1 – 2"]]
    del found["rounds"][1]
    assert "Rounds" not in [each.title for each in analysis_parts(found)]


def test_online_ratings_leave_gaps_where_there_are_none() -> None:
    first, second = cells(part("Online ratings").tables[0])
    assert first == ["ann", "1041", 25.5, 1.25]
    assert second[:2] == ["bob", "959"]
    assert math.isnan(second[2])


RATINGS = [
    Rating("ann", 50.4, 20.0, 80.0, 40, 30, 0, 10, 1, 1, 2),
    Rating("bob", 10.0, -20.0, 40.0, 40, 20, 0, 20, 2, 1, 2),
    Rating("cat", -60.4, -90.0, -30.0, 40, 10, 0, 30, 3, 3, 3),
]


def test_the_lead_says_who_is_first_and_how_sure_that_is() -> None:
    assert tournament_lead(RATINGS, None) == (
        "ann is rated highest of 3 agents, at +50 [+20, +80] Elo points from the mean. That it is the best is not "
        "certain: at 95 % its place is 1 to 2; bob may be as good."
    )
    alone = [replace(RATINGS[0], rank_high=1), *RATINGS[1:]]
    assert tournament_lead(alone, "cat").endswith("from cat. At 95 % it is alone in the first place.")
    old = [replace(rating, rank=0, rank_low=0, rank_high=0) for rating in RATINGS]
    assert tournament_lead(old, "ann") == "ann is rated highest of 3 agents."
    assert tournament_lead([], None) == ""


def test_how_ratings_were_made_follows_the_file() -> None:
    assert "bootstrap clustered by question" in how_rated({}, RATINGS)
    told = how_rated({"ties": "half", "intervals": "profile"}, RATINGS)
    assert "ties count half" in told
    assert "profile likelihood" in told


def section(names: tuple[str, str, str] = ("ann", "bob", "cat")) -> Section:
    found = analysis(*names)
    ratings = [replace(rating, name=name) for rating, name in zip(RATINGS, names, strict=True)]
    return Section(
        names[0],
        tournament_lead(ratings, None),
        ratings=ratings,
        cross_play=CrossPlay(names, np.array(found["payoffs"]["scores"]), np.array(found["payoffs"]["games"])),
        mixture=mixture_of(found),
        parts=analysis_parts(found, rows((names[0], 1))),
        notes=found["notes"],
    )


class Page(HTMLParser):
    """Tags, attributes and words as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += f" {data.strip()}"


def test_ranks_stand_in_the_table() -> None:
    words = " ".join(Page(render_report(ReportData("t", sections=[section()]))).words.split())
    assert "Rank Agent Elo" in words
    assert "1 – 2 ann +50 +20 – +80 40 30 / 0 / 10" in words
    assert "3 cat −60" in words
    assert "A rank is" not in words  # said by how_rated, which this section was not given


def test_findings_are_linked_at_the_top() -> None:
    page = render_report(ReportData("t", sections=[section(), section()]))
    links = re.findall(r'href="#(s\dp\d+)"', page)
    assert len(links) == len(set(links)) == 2 * len(section().parts)
    assert all(page.count(f'id="{link}"') == 1 for link in links)


def test_hostile_names_are_inert_in_the_page_and_in_every_picture(tmp_path: Any) -> None:
    kind = Page(render_report(ReportData("t", sections=[section()])))
    hostile = render_report(ReportData("t", sections=[section((HOSTILE, f"{HOSTILE}2", f"{HOSTILE}3"))]))
    hostile.encode("utf-8")
    page = Page(hostile)
    assert set(page.tags) - set(kind.tags) <= {"span"}
    assert page.attributes - kind.attributes <= {"transform"}  # long names are slanted
    assert "<script>alert(1)</script>" in page.words
    assert "{{ 7 * 7 }}" in page.words
    assert not [hidden for hidden in "\u202e\x00" if hidden in hostile]
    for path in write_figures(tmp_path, [section((HOSTILE, f"{HOSTILE}2", f"{HOSTILE}3"))], "svg"):
        drawn = path.read_text(encoding="utf-8")
        for node in ET.fromstring(drawn.encode()).iter():
            assert node.tag.rpartition("}")[2] in DRAWN
            assert not [name for name in node.attrib if name.startswith("on")]
            assert "url(" not in (node.get("style") or "")
        assert not [hidden for hidden in "\u202e\x00" if hidden in drawn]


def test_every_picture_has_a_file_with_a_plain_name(tmp_path: Any) -> None:
    written = write_figures(tmp_path / "deep", [section()], "svg")
    assert [path.name for path in written] == [
        "ratings.svg", "cross-play.svg", "differences.svg", "sprt.svg", "seats.svg", "protocols.svg", "cycles.svg",
        "accuracy.svg", "gap-recovered.svg", "honesty.svg", "judges.svg", "reliability.svg", "style.svg",
        "without-style.svg",
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == sorted(path.name for path in written)
    assert len(written) == len(section_figures(section()))
    twice = write_figures(tmp_path / "two", [section(), section()], "svg")
    assert {"ann-ratings.svg", "ann-ratings-2.svg"} <= {path.name for path in twice}


def test_pictures_as_png(tmp_path: Any) -> None:
    pytest.importorskip("resvg_py", reason="pip install 'debate-arena[figures]'")
    small = Section("s", ratings=RATINGS)
    (path,) = write_figures(tmp_path, [small], "png")
    assert path.name == "ratings.png"
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("../../etc/passwd", "etc-passwd"),
        (HOSTILE, None),
        ("漢字", "figure"),
        ("a" * 300, "a" * 60),
        ("ab " * 40, "-".join(["ab"] * 20)),
    ],
)
def test_no_words_lead_out_of_the_folder(words: str, name: str | None) -> None:
    made = slug(words)
    assert re.fullmatch(r"[a-z0-9-]+", made)
    assert name is None or made == name


def test_many_agents_are_cut_in_pictures_and_whole_in_tables() -> None:
    many = [replace(RATINGS[0], name=f"agent-{number}") for number in range(90)]
    found = Section("s", ratings=many)
    (figure,) = section_figures(found)
    assert "the best 40 of 90" in figure.caption
    assert "agent-39" in figure.svg
    assert "agent-40" not in figure.svg
    assert "agent-89" in render_report(ReportData("t", sections=[found]))


def test_a_report_without_pictures_is_told(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="no picture"):
        write_figures(tmp_path, [Section("s")], "svg")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"ratings\.svg cannot be written"):
        write_figures(tmp_path / "file", [Section("s", ratings=RATINGS)], "svg")


def test_the_analysis_is_not_changed_by_being_shown() -> None:
    found = analysis()
    before = copy.deepcopy(found)
    analysis_parts(found)
    assert found == before
