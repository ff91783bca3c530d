"""The page of a study: metrics over seeds, figures over steps, alarms, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import studies

from arena.charts import Series
from arena.report import Link, Part, Section
from arena.training import study_curves
from arena.training.study_folder import read_study
from arena.training.study_reporting import study_section, write_study_report


def section(folder: Path, **values: list[float | None]) -> Section:
    studies.write_study(folder, {name.replace("_seed", "-seed"): each for name, each in values.items()})
    return study_section(read_study(folder), folder)


def part(found: Section, title: str) -> Part:
    return next(each for each in found.parts if each.title == title)


def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Series]]:
    """Title of a figure -> its lines, filled while a section is made."""
    lines: dict[str, list[Series]] = {}
    real = study_curves.curve_figure

    def spy(curve: study_curves.Curve) -> study_curves.Figure:
        lines[curve.title] = list(curve.series)
        return real(curve)

    monkeypatch.setattr(study_curves, "curve_figure", spy)
    return lines


def test_metrics_have_a_column_a_seed_mean_and_sample_deviation(tmp_path: Path) -> None:
    found = section(tmp_path, seed0=[1.0], seed1=[2.0], seed2=[3.0])
    table, how = part(found, "Metrics").tables
    assert list(table.columns) == ["metric", "seed 0", "seed 1", "seed 2", "mean", "standard deviation"]
    assert table.rows[0] == ["nash_conv", "1", "2", "3", "2", "1"]
    assert table.rows[-1] == ["seconds", "4", "4", "4", "4", "0"]
    assert how.rows[0] == ["nash_conv", "exact.nash_conv.last"]


def test_few_seeds_are_called_few_with_what_the_tables_of_t_and_chi_square_say(tmp_path: Path) -> None:
    note = part(section(tmp_path), "Metrics").tables[0].note
    # t(2) = 4.303 at 97.5 %, over the root of 3; chi-square(2) = 7.378 and 0.0506 at 97.5 and 2.5 %.
    assert "sample standard deviation (n - 1) over 3 seeds" in note
    assert "3 seeds are few" in note
    assert "would reach 2.5 deviations" in note
    assert "from 0.52 to 6.3 times" in note


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    studies.write_study(tmp_path, {}, seeds=[7])
    table = part(study_section(read_study(tmp_path), tmp_path), "Metrics").tables[0]
    assert list(table.columns) == ["metric", "seed 7"]
    assert table.note.startswith("One seed")


def test_a_number_that_a_training_lacks_is_a_dash_and_in_no_mean(tmp_path: Path) -> None:
    table = part(section(tmp_path, seed0=[1.0], seed1=[None], seed2=[3.0]), "Metrics").tables[0]
    assert table.rows[0] == ["nash_conv", "1", "–", "3", "2", "1.41"]
    assert "counts in no mean (nash_conv, over_no_kl)" in table.note


def test_a_measure_of_a_probe_is_one_figure_with_a_line_a_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = drawn(monkeypatch)
    found = section(tmp_path, seed0=[3.0, 1.0, 0.0], seed1=[5.0, 3.0], seed2=[7.0, None, 4.0])
    main, no_kl = lines["exact.nash_conv"]
    assert (main.name, no_kl.name) == ("main", "no_kl")
    # Seed 1 has nothing at step 4 and seed 2 nothing at step 2: the mean is of step 0 alone.
    assert (list(main.x), list(main.y)) == ([0], [5.0])
    assert [(list(x), list(y)) for x, y in main.courses] == [
        ([0, 2, 4], [3.0, 1.0, 0.0]),
        ([0, 2], [5.0, 3.0]),
        ([0, 4], [7.0, 4.0]),
    ]
    assert [figure.name for figure in part(found, "Probe exact").figures] == ["exact.nash_conv"]


def test_seeds_are_drawn_to_their_own_scale_where_one_lacks_the_measure(tmp_path: Path) -> None:
    found = section(tmp_path, seed0=[30.0, 10.0], seed1=[None, None], no_kl_seed0=[None], no_kl_seed1=[None])
    (figure,) = part(found, "Probe exact").figures
    assert ">30<" in figure.svg, "the axis reaches what is drawn"


def test_training_is_shown_by_its_kl_and_rewards_counted_over_generations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = drawn(monkeypatch)
    found = section(tmp_path)
    assert list(lines)[1:] == [
        "KL to the reference of p, nats a turn",
        "KL to the reference of q, nats a turn",
        "Reward ann",
    ]
    kl = lines["KL to the reference of q, nats a turn"][0]
    assert (list(kl.x), list(kl.y)) == ([1, 2, 3, 4], [0.0, 0.02, 0.04, 0.06])
    # Nine steps about each of the four: always their mean.
    assert list(lines["Reward ann"][0].y) == pytest.approx([0.15] * 4)
    assert found.facts["optimizer steps of each"] == 4
    assert "running means over 9 steps, the KL is as measured" in part(found, "Training").note


def test_a_long_course_is_thinned_and_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(monkeypatch)
    found = section(tmp_path, **{f"seed{seed}": [float(n) for n in range(1001)] for seed in range(3)})
    steps = list(lines["exact.nash_conv"][0].x)
    assert len(steps) <= 202
    assert (steps[0], steps[-1]) == (0, 2000)
    assert "running means over 67 steps, the KL is one over 21" in part(found, "Training").note


def test_alarms_are_a_table_by_variant_and_seed(tmp_path: Path) -> None:
    found = part(section(tmp_path), "Alarms")
    assert found.lead == "Alarms rang in 3 of 6 trainings."
    assert found.tables[0].rows[1] == ["no_kl", 1, 4, "kl", "<b>too</b> much"]


def test_trainings_are_linked_to_from_where_the_page_is(tmp_path: Path) -> None:
    studies.write_study(tmp_path / "runs" / "poker", {})
    (tmp_path / "runs" / "poker" / "seed1" / "report.html").unlink()
    study = read_study(tmp_path / "runs" / "poker")
    pages = [row[-1] for row in part(study_section(study, tmp_path / "pages"), "Trainings").tables[0].rows]
    assert pages[0] == Link("seed0/report.html", "../runs/poker/seed0/report.html")
    assert pages[1] == "seed1"
    assert pages[3] == Link("no_kl-seed0/report.html", "../runs/poker/no_kl-seed0/report.html")


def test_the_page_is_one_file_with_all_of_it(tmp_path: Path) -> None:
    studies.write_study(tmp_path, {"seed0": [3.0, 0.125]})
    page = write_study_report(tmp_path / "report.html", tmp_path, created="2026-01-01").read_text(encoding="utf-8")
    words = " ".join(re.sub("<[^>]*>", " ", page).split())
    for told in (
        "poker",
        "Bluffing, with and without a KL.",
        "2026-01-01",
        "6 trainings: 2 variants, each with 3 seeds.",
    ):
        assert told in words
    for told in ("0.125", "self_play.learner.kl.beta", "exact.nash_conv", "&lt;b&gt;too&lt;/b&gt; much"):
        assert told in words
    assert re.findall(r'href="([^"#]+)"', page) == [
        f"{name}/report.html" for name in ("seed0", "seed1", "seed2", "no_kl-seed0", "no_kl-seed1", "no_kl-seed2")
    ]
    assert not re.search(r'(?:src|href)="https?:', page)


def test_the_summary_of_an_earlier_study_is_that_of_its_recipe(tmp_path: Path) -> None:
    studies.write_study(tmp_path, {}, summary="")
    page = write_study_report(tmp_path / "report.html", tmp_path, created="").read_text(encoding="utf-8")
    assert "A small game." in page
