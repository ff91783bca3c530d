"""Stored transcripts under another judge: nothing is played, nothing that was stored is changed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from arena.judges.human import HumanJudge
from arena.judges.verdicts import abstain
from arena.protocols.errors import ConfigError, LeftError, ResumeError
from arena.protocols.records import Verdict
from arena.rejudging import Comparison, comparison_json, rejudge, stored_comparisons
from arena.reporting import report_run
from arena.running import RunConfig, run_episodes, stored_tasks
from arena.store import Store


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Six debates on three questions; `match` finds no answer in the last turn of four of them."""
    path = tmp_path / "tasks.jsonl"
    rows = [{"id": f"q{n}", "question": "?", "answers": ["yes", "no"], "label": int(n == 0)} for n in range(3)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = RunConfig("debate", str(path), {"*": "fixed:text=yes"}, {"*": "exact"}, swap=True, params={"rounds": 1})
    run_episodes(config, tmp_path / "run", created="2026-12-01")
    return tmp_path / "run"


def lines(folder: Path) -> list[str]:
    with Store.open(folder, create=False) as store:
        return list(store.run().lines())


def test_both_judges_stand_side_by_side(run: Path) -> None:
    before = lines(run)
    found, where = rejudge(run, "match", created="x")
    assert lines(run) == before
    assert where.parent == run / "judged"
    assert found.names[0].startswith("exact@")
    assert found.names[1].startswith("match@")
    assert found.accuracies[0].interval is not None
    assert found.accuracies[0].interval.value == 1.0
    assert found.accuracies[1].interval is not None
    assert found.accuracies[1].interval.value == pytest.approx(4 / 6)
    assert (found.both, found.agreement) == (6, pytest.approx(4 / 6))
    assert found.test is not None
    assert (found.test.only_first, found.test.only_second) == (2, 0)
    assert found.test.exact == 0.5
    # by question: three signs, of which one matters
    assert found.p_clustered == 1.0


def test_verdicts_are_stored_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, where = rejudge(run, "match", created="x")
    monkeypatch.setattr("arena.judges.exact.MatchJudge.judge", lambda self, views: pytest.fail("asked again"))
    assert rejudge(run, "match", created="y", resume=True) == (first, where)


def test_verdicts_that_are_there_are_gone_on_with_only_if_told(run: Path) -> None:
    rejudge(run, "match", created="x", resume=True)  # nothing to go on with is no mistake
    with pytest.raises(ResumeError, match=r"already holds verdicts on 6 of 6 transcripts: add --resume .*--name"):
        rejudge(run, "match", created="y")
    rejudge(run, "match", created="y", name="again")
    assert len(list((run / "judged").iterdir())) == 2


def test_a_person_who_leaves_is_asked_for_the_others_only(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["1", "80", ""] * 2)

    def read(before: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    judge = HumanJudge("ann", read=read, console=Console(file=io.StringIO()))
    monkeypatch.setattr("arena.rejudging.JUDGES.build", lambda *given, **context: judge)
    with pytest.raises(LeftError, match="ann has left"):
        rejudge(run, "human:name=ann", created="x")
    typed = iter(["1", "80", ""] * 4)
    found, _ = rejudge(run, "human:name=ann", created="x", resume=True)
    assert found.both == 6
    assert next(typed, None) is None


def test_what_was_judged_before_a_stop_is_not_judged_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from arena.judges.exact import MatchJudge

    asked: list[int] = []
    plain = MatchJudge.judge

    def counted(self: MatchJudge, views: list[object]) -> list[Verdict]:
        asked.append(len(views))
        return plain(self, views)  # type: ignore[arg-type]

    monkeypatch.setattr(MatchJudge, "judge", counted)
    monkeypatch.setattr("arena.rejudging._BLOCK", 4)

    def stop(block: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rejudge(run, "match", created="x", on_batch=stop)
    found, _ = rejudge(run, "match", created="x", resume=True)
    assert asked == [4, 2]
    assert found.both == 6


def test_another_judge_has_a_folder_of_its_own_and_a_name_cannot_be_taken_twice(run: Path) -> None:
    rejudge(run, "match", created="x", name="mine")
    with pytest.raises(ResumeError, match="judge"):
        rejudge(run, "biased:accuracy=.6", created="x", name="mine", resume=True)
    rejudge(run, "biased:accuracy=.6", created="x")
    assert len(list((run / "judged").iterdir())) == 2


def test_a_run_directory_that_only_reads_is_judged_elsewhere(run: Path, tmp_path: Path) -> None:
    _, where = rejudge(run, "match", created="x", out=tmp_path / "else")
    assert where == tmp_path / "else"
    assert not (run / "judged").exists()


def test_the_report_shows_all_judges(run: Path, tmp_path: Path) -> None:
    found, _ = rejudge(run, "match", created="x")
    with Store.open(run, create=False) as store:
        handle = store.run()
        again: list[Comparison] = stored_comparisons(run, list(handle.episodes()), stored_tasks(handle))
    assert again == [found]
    page = report_run(run, tmp_path / "page.html", created="now").read_text()
    assert f"judged by {found.names[1]}" in page
    assert "Judges side by side" in page


def test_the_document_holds_both(run: Path) -> None:
    found = comparison_json(rejudge(run, "match", created="x")[0])
    json.dumps(found, allow_nan=False)
    assert found["original"]["accuracy"]["value"] == 1.0
    assert found["judge"]["decidable"] == 6
    assert found["mcnemar"]["only_first"] == 2


def test_a_judge_that_decides_nothing_is_compared_in_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.judges.exact.MatchJudge._one", lambda self, view: abstain(self.name, "tired"))
    found, _ = rejudge(run, "match", created="x")
    assert (found.both, found.agreement, found.kappa, found.test) == (0, None, None, None)
    assert found.accuracies[1].undecidable == {"abstain": 6}


def test_mistakes_are_told(run: Path) -> None:
    with pytest.raises(ConfigError, match="is none of its judge nodes"):
        rejudge(run, "match", created="x", node="pro")


@pytest.mark.parametrize("name", ["../../evil", "a/b", "..", ".hidden", ""])
def test_a_name_cannot_lead_out_of_the_folder(run: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a folder"):
        rejudge(run, "match", created="x", name=name)
