"""``study.json``: what a study is to do, and what came of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import studies

from arena.protocols.errors import StoreError
from arena.training.study import Run
from arena.training.study_folder import begin_study, is_study, read_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    studies.write_study(tmp_path / "kept", {"seed0": [3.0, 0.5], "no_kl-seed0": [3.0, 2.0]})
    return tmp_path / "kept"


def fault(folder: Path) -> str:
    with pytest.raises(StoreError) as caught:
        read_study(folder)
    return str(caught.value)


def test_what_was_written_is_read(folder: Path) -> None:
    study = read_study(folder)
    assert (study.recipe, study.seeds, study.variants) == ("poker", [0, 1, 2], ["main", "no_kl"])
    assert study.runs[1] == Run("no_kl", 0, studies.VARIANTS["no_kl"])
    assert study.place(study.runs[1]) == folder / "no_kl-seed0"
    assert study.metrics == {"nash_conv": [0.5, 1.0, 1.0], "over_no_kl": [1.5, 0.0, 0.0], "rang": [3.0, 4.0, 5.0]}


def test_a_study_that_was_moved_is_read_where_it_is(folder: Path) -> None:
    moved = folder.rename(folder.with_name("moved"))
    assert read_study(moved).place(Run("main", 0, {})) == moved / "seed0"


def test_a_study_of_an_earlier_version_has_no_words_and_is_read(folder: Path) -> None:
    plain = json.loads((folder / "study.json").read_text())
    kept = {key: plain[key] for key in ("recipe", "seeds", "metrics", "seconds", "elapsed", "runs", "main")}
    (folder / "study.json").write_text(json.dumps(kept))
    study = read_study(folder)
    assert (study.summary, study.definitions, study.runs[1].overrides) == ("", {}, {})


def test_what_is_missing_is_told_with_its_state_and_the_way_out(folder: Path) -> None:
    for name in ("seed1", "no_kl-seed1", "no_kl-seed2"):
        (folder / name / "results.json").unlink()
    (folder / "seed1.log").write_text("a warning\nthe model gave no answer\n\n")
    (folder / "no_kl-seed1.log").write_text("")
    first, *rest = fault(folder).splitlines()
    assert first == f"{folder} holds a study that is not finished, or still running: of 6 trainings 3 without results"
    assert rest == [
        f"  seed1: not finished; {folder / 'seed1.log'} ends with: the model gave no answer",
        "  no_kl-seed1: not finished",
        "  no_kl-seed2: not begun",
        f"go on with it by arena train poker.yaml self_play.steps=2 --seeds 0,1,2 --resume --out {folder}",
        f"each training that is finished has a page of its own: arena report {folder / 'seed0'}",
    ]


def test_a_study_that_was_killed_before_its_metrics_is_not_finished(folder: Path) -> None:
    plain = json.loads((folder / "study.json").read_text())
    del plain["metrics"]
    (folder / "study.json").write_text(json.dumps(plain))
    assert "its metrics are missing" in fault(folder)


def test_a_study_is_not_written_over(folder: Path) -> None:
    before = (folder / "study.json").read_text()
    with pytest.raises(StoreError, match="already holds a study: go on with it by --resume"):
        begin_study(folder, {"recipe": "other"}, resume=False)
    assert (folder / "study.json").read_text() == before
    begin_study(folder, {"recipe": "other"}, resume=True)
    assert json.loads((folder / "study.json").read_text())["recipe"] == "other"


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "cannot be read"), ("[]", "holds no mapping"), ('{"runs": [{}]}', "KeyError"), ('{"runs": 3}', "TypeError")],
)
def test_a_damaged_file_is_told(folder: Path, text: str, told: str) -> None:
    (folder / "study.json").write_text(text)
    assert told in fault(folder)


def test_a_folder_without_one_is_no_study(tmp_path: Path) -> None:
    assert not is_study(tmp_path)
    assert "holds no study" in fault(tmp_path)
