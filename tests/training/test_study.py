"""Studies: metrics over what several trainings wrote down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena.protocols.errors import ArenaError, ConfigError, StoreError
from arena.training.study import Metric, Records, check_metrics, metrics_rows, runs_of, study_metrics


def run(folder: Path, values: list[float | None], results: dict[str, object] | None = None) -> Path:
    folder.mkdir(parents=True)
    rows = [{"phase": "probe", "probe": "exact", "at": n, "nash_conv": value} for n, value in enumerate(values)]
    rows.append({"phase": "self-play", "kl_per_turn": 0.5, "planner/kl_per_turn": 0.25})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "results.json").write_text(json.dumps(results or {}))
    return folder


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("exact.nash_conv.first", 8.0),
        ("exact.nash_conv.last", 1.0),
        ("exact.nash_conv.min", 1.0),
        ("exact.nash_conv.max", 8.0),
        ("exact.nash_conv.mean", 4.5),
        ("exact.nash_conv.last_quarter", 1.5),
        ("exact.nash_conv.last3", 2.0),
        ("exact.nash_conv.first2", 7.5),
        ("exact.nash_conv.last - exact.nash_conv.first", -7.0),
        ("2 * exact.nash_conv.last/4", 0.5),
        ("train.kl_per_turn.last", 0.5),
        ("train.planner/kl_per_turn.last", 0.25),
        ("results.arms.debate.accuracy", 0.75),
        ("results.elo.last", 20.0),
        ("results.elo.0", 0.0),
        ("results.arms.nobody.accuracy", None),
        ("results.alarms.hacking.at", 42.0),
        ("results.alarms.entropy.at", None),
        ("exact.nothing.last", None),
        ("1 / (exact.nash_conv.last - 1)", None),
    ],
)
def test_a_metric_is_arithmetic_over_what_a_run_wrote(tmp_path: Path, text: str, value: float | None) -> None:
    results = {"arms": {"debate": {"accuracy": 0.75}}, "elo": [0.0, 20.0]}
    results["alarms"] = [{"alarm": "length", "at": 30}, {"alarm": "hacking", "at": 42}, {"alarm": "hacking", "at": 90}]
    folder = run(tmp_path / "run", [8, 7, 6, 5, 4, 3, 2, 1], results)
    assert Metric("m", text)({"main": Records(folder)}) == value


def test_rows_without_a_value_are_left_out(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", [4.0, None])
    assert Metric("m", "exact.nash_conv.last")({"main": Records(folder)}) == 4.0


def test_metrics_come_by_seed_and_compare_variants(tmp_path: Path) -> None:
    names = [each.name for each in runs_of([0, 7], {"plain": {}})]
    assert names == ["seed0", "plain-seed0", "seed7", "plain-seed7"]
    folders = {name: run(tmp_path / name, [float(number)]) for number, name in enumerate(names)}
    found = study_metrics({"gain": "exact.nash_conv.last - plain: exact.nash_conv.last"}, [0, 7], folders)
    assert found == {"gain": [-1.0, -1.0]}
    (folders["seed7"] / "results.json").unlink()
    with pytest.raises(StoreError, match="seed7 holds no finished training run"):
        study_metrics({"last": "exact.nash_conv.last"}, [0, 7], folders)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("exact.nash_conv", "names no statistic"),
        ("exact.nash_conv.lst", "'lst' is no statistic. Did you mean 'last'?"),
        ("nash_conv", "is no metric: write SOURCE.MEASURE.STATISTIC"),
        ("exact.nash_conv.last +", "is no metric"),
        ("exact.nash_conv.last + other", "is no metric"),
        ("__import__('os').system('x')", "is no metric|no statistic"),
    ],
)
def test_what_is_no_metric_is_refused_in_words(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Metric("m", text)


def test_metrics_of_what_there_is_not_are_faults() -> None:
    faults = check_metrics({"a": "exat.x.last", "b": "nokl: exact.x.last"}, {"no_kl": {}}, {"exact": None})
    assert faults == [
        ("a", "'exat' is no probe. Did you mean 'exact'?"),
        ("b", "'nokl' is no variant. Did you mean 'no_kl'?"),
    ]


def test_a_damaged_row_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ArenaError, match=r"metrics.jsonl:2:7: not a metrics row"):
        metrics_rows(path)
