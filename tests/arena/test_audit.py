"""Audits of judges whose faults are known."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from arena.audit import AuditConfig, report_audit, run_audit
from arena.audit.material import Case
from arena.audit.measures import Seen, measure
from arena.judges import JUDGES
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain, certain
from arena.protocols.errors import ConfigError, ResumeError, StoreError
from arena.protocols.records import Verdict, VerdictStatus
from arena.running import RunConfig, run_episodes

FINAL = (
    "accuracy",
    "position_bias",
    "length_bias",
    "self_preference",
    "brier",
    "ece",
    "mcc",
    "order_consistency",
    "decidable",
    "undecidable",
)


class Ruled:
    """Chooses what a rule says; None abstains."""

    sees_label = False

    def __init__(self, name: str, rule: Callable[[JudgeView], int | None]) -> None:
        self.name = name
        self.rule = rule
        self.asked = 0

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        self.asked += len(views)
        choices = map(self.rule, views)
        return [abstain(self.name, "cannot say") if at is None else certain(self.name, at, 2) for at in choices]


def said_for(view: JudgeView, answer: int) -> str:
    return " ".join(said.text for said in view.statements if said.answer == answer)


def longest(view: JudgeView) -> int:
    return int(len(said_for(view, 1)) > len(said_for(view, 0)))


def which(pattern: str) -> Callable[[JudgeView], int]:
    """Follows a text; without it, the first answer in the alphabet."""

    def rule(view: JudgeView) -> int:
        found = [bool(re.search(pattern, said_for(view, answer))) for answer in (0, 1)]
        return found.index(True) if any(found) else view.answers.index(min(view.answers))

    return rule


@pytest.fixture
def ruled() -> Iterator[Callable[[str, Callable[[JudgeView], int | None]], Ruled]]:
    """Registers a judge under a name for one test."""
    names = []

    def add(name: str, rule: Callable[[JudgeView], int | None]) -> Ruled:
        judge = Ruled(name, rule)
        JUDGES.register(name, summary="a rule")(lambda: judge)
        names.append(name)
        return judge

    yield add
    for name in names:
        del JUDGES._own[name]


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    path = tmp_path / "tasks.jsonl"
    rows = [{"id": f"q{n}", "question": f"Q{n}?", "answers": ["no", "yes"], "label": n % 2} for n in range(24)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def audit(folder: Path, judge: str, tasks: str, resume: bool = False, **options: Any) -> dict[str, Any]:
    return run_audit(AuditConfig(judge, tasks, **options), folder / "audit", created="2026-12-01", resume=resume)


@pytest.mark.parametrize("seed", range(2))
def test_planted_biases_are_found(tmp_path: Path, seed: int) -> None:
    """All 20 seeds: benchmarks/audit.py."""
    spec = "biased:accuracy=.8,position=.15,length=.1,self=.1"
    found = audit(tmp_path, spec, "claims:test=2000,train=0", seed=seed)
    planted = {"accuracy": 0.8, "position_bias": 0.15, "length_bias": 0.1, "self_preference": 0.1}
    for name, value in planted.items():
        assert found[name]["low"] <= value <= found[name]["high"], name
        assert found[name]["high"] - found[name]["low"] < 0.06, name
    for probe in ("sycophancy", "forged_verdict", "flattery"):
        assert found[probe]["value"] == 0.0
    assert found["order_consistency"] == pytest.approx(0.85, abs=0.03)
    assert found["brier"] == pytest.approx(0.32, abs=0.03)  # 2 * 0.8 * 0.2 for a judge that is calibrated
    assert found["ece"] < 0.03
    assert found["mcc"] == pytest.approx(0.6, abs=0.04)


def test_the_document_ends_with_the_keys_that_scripts_read(tmp_path: Path, tasks: str) -> None:
    found = audit(tmp_path, "exact", tasks)
    assert tuple(found)[-10:] == FINAL
    assert (found["accuracy"]["value"], found["brier"], found["ece"], found["mcc"]) == (
        1.0,
        pytest.approx(0.0),
        pytest.approx(0.0),
        1.0,
    )
    assert (found["decidable"], found["undecidable"], found["order_consistency"]) == (96, {}, 1.0)
    json.dumps(found, allow_nan=False)


def test_a_judge_that_takes_the_first_has_position_bias_1(tmp_path: Path, tasks: str, ruled: Any) -> None:
    ruled("first", lambda view: 0)
    found = audit(tmp_path, "first", tasks)
    assert found["position_bias"]["value"] == pytest.approx(1.0)
    assert found["length_bias"]["value"] == pytest.approx(0.0)
    assert found["accuracy"]["value"] == 0.5
    assert found["order_consistency"] == 0.0
    assert found["mcc"] == 0.0


def test_a_judge_that_takes_the_longer_has_length_bias_1_and_no_other(tmp_path: Path, tasks: str, ruled: Any) -> None:
    ruled("long", longest)
    found = audit(tmp_path, "long", tasks)
    assert found["length_bias"]["value"] == pytest.approx(1.0)
    assert found["position_bias"]["value"] == pytest.approx(0.0)
    assert found["order_consistency"] == 1.0


@pytest.mark.parametrize(
    ("probe", "pattern"), [("forged_verdict", "Verdict"), ("flattery", "wisest"), ("sycophancy", "certain")]
)
def test_a_judge_that_falls_for_a_probe_is_caught_by_it_alone(
    tmp_path: Path, tasks: str, ruled: Any, probe: str, pattern: str
) -> None:
    ruled("gullible", which(pattern))
    found = audit(tmp_path, "gullible", tasks)
    others = {"forged_verdict", "flattery", "sycophancy", "position_bias", "length_bias"} - {probe}
    assert found[probe]["value"] == pytest.approx(1.0)
    assert all(found[name]["value"] == pytest.approx(0.0) for name in others)


def test_self_preference_needs_two_writers(tmp_path: Path, tasks: str, ruled: Any) -> None:
    ruled("proud", which("We machines"))
    assert audit(tmp_path / "a", "proud", tasks)["self_preference"]["value"] is None
    writers = {"own": "fixed:text='We machines say so.'", "other": "fixed:text='It is so.'"}
    found = audit(tmp_path / "b", "proud", tasks, **writers)
    assert found["self_preference"]["value"] == pytest.approx(1.0)
    assert found["length_bias"]["value"] == pytest.approx(0.0)
    assert "own family" in found["material"]


def test_what_cannot_be_decided_is_counted_and_not_imputed(tmp_path: Path, tasks: str, ruled: Any) -> None:
    ruled("shy", lambda view: None if view.answers[0] == "no" else 0)
    found = audit(tmp_path, "shy", tasks)
    assert found["undecidable"] == {"abstain": 48}
    assert found["undecidable_reasons"] == {"abstain": "cannot say"}
    assert found["decidable"] == 48
    assert found["accuracy"]["n"] == 48
    assert found["order_consistency"] is None  # no pair is whole


def test_a_judge_that_never_decides_has_no_numbers(tmp_path: Path, tasks: str, ruled: Any) -> None:
    ruled("mute", lambda view: None)
    found = audit(tmp_path, "mute", tasks)
    assert found["accuracy"]["value"] is found["brier"] is found["position_bias"]["value"] is None
    report_audit(tmp_path / "audit", tmp_path / "page.html", created="now")


def test_judges_are_compared_by_what_they_choose(tmp_path: Path, tasks: str, ruled: Any) -> None:
    ruled("first", lambda view: 0)
    ruled("second", lambda view: 1)
    found = audit(tmp_path, "exact", tasks, beside=("first", "second"))["agreement"]
    assert found["with"]["first"]["agreement"] == 0.5
    assert found["with"]["first"]["cohen_kappa"] == pytest.approx(0.0)
    assert found["with"]["first"]["accuracy"]["value"] == 0.5
    assert found["judges"] == 3
    assert found["fleiss_kappa"] == pytest.approx((1 / 3 - 0.5) / 0.5)  # one pair of three agrees


def test_an_audit_goes_on_where_it_stopped(tmp_path: Path, ruled: Any) -> None:
    judge = ruled("long", longest)
    whole = audit(tmp_path / "whole", "long", "claims:test=20,train=0")
    asked, judge.asked = judge.asked, 0

    class StopError(Exception):
        pass

    def stop(verdicts: Sequence[Verdict]) -> None:
        raise StopError

    config = AuditConfig("long", "claims:test=20,train=0")
    with pytest.raises(StopError):
        run_audit(config, tmp_path / "broken", created="x", on_batch=stop)
    with pytest.raises(StoreError, match="not finished"):
        report_audit(tmp_path / "broken", tmp_path / "page.html", created="now")
    resumed = run_audit(config, tmp_path / "broken", created="x", resume=True)
    assert judge.asked == asked
    assert {**resumed, "cost": None} == {**whole, "cost": None}
    with pytest.raises(ResumeError, match="seed"):
        run_audit(AuditConfig("long", "claims:test=20,train=0", seed=1), tmp_path / "broken", created="x", resume=True)


def test_debates_that_were_held_are_shown_again(tmp_path: Path, tasks: str, ruled: Any) -> None:
    run = RunConfig("debate", tasks, {"*": "fixed:text=It is so."}, {"*": "exact"}, swap=True)
    run_episodes(run, tmp_path / "run", created="x")
    judge = ruled("first", lambda view: 0)
    config = AuditConfig("first", transcripts=str(tmp_path / "run"))
    found = run_audit(config, tmp_path / "audit", created="x")
    assert (found["cases"], found["questions"]) == (48, 24)
    assert found["position_bias"]["value"] == pytest.approx(1.0)
    assert judge.asked == 48 * 10


def test_one_reading_of_a_judge_that_reads_both_orders_may_be_biased() -> None:
    def seen(number: int, order: int) -> Seen:
        from arena.audit.design import Shown

        held = Case(str(number), str(number), "Q?", ("a", "b"), 0, ())
        orders = [
            {"order": [0, 1], "logps": [math.log(0.9), math.log(0.1)]},
            {"order": [1, 0], "logps": [math.log(0.3), math.log(0.7)]},
        ]
        half = math.log(0.6), math.log(0.4)
        return Seen(held, Shown(order), Verdict(VerdictStatus.SCORED, "j", half, None, {"orders": orders}))

    found = measure([seen(number, order) for number in range(20) for order in (1, -1)], {})
    assert found["raw_readings"]["position_bias"]["value"] == pytest.approx(1.0)
    assert found["raw_readings"]["order_consistency"] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either --tasks"),
        ({"tasks": "claims", "transcripts": "x"}, "either --tasks"),
        ({"transcripts": "x", "sees": ("passage",)}, "leave out"),
        ({"tasks": "claims", "node": "verdict"}, "--node"),
        ({"tasks": "claims", "other": "random"}, "--other needs --own"),
        ({"tasks": "claims", "beside": ("exact",)}, "compared with itself"),
        ({"tasks": "claims", "split": "dev"}, "neither"),
        ({"tasks": "claims", "sees": ("solution",)}, "no field 'solution'"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_audit(AuditConfig("exact", **options), tmp_path / "audit", created="x")
    assert not (tmp_path / "audit").exists()


def test_the_page_shows_the_numbers_and_the_reliability_diagram(tmp_path: Path, tasks: str) -> None:
    audit(tmp_path, "biased:accuracy=.7", tasks, beside=("exact",))
    page = report_audit(tmp_path / "audit", tmp_path / "page.html", created="now").read_text()
    for text in ("Audit of biased:accuracy=.7", "stated confidence", "no effect", "Fleiss", "order consistency"):
        assert text in page


def test_a_bias_for_the_letter_and_one_for_the_order_of_speaking_are_told_apart(tmp_path: Path) -> None:
    spec = "biased:accuracy=.7,position=.2,speaking=-.3"
    found = run_audit(AuditConfig(spec, tasks="claims:test=600"), tmp_path / "a", created="x")
    for name, planted in (("position_bias", -0.1), ("letter_bias", 0.2), ("speaking_bias", -0.3), ("length_bias", 0)):
        assert found[name]["low"] <= planted <= found[name]["high"], (name, found[name])
        assert found[name]["high"] - found[name]["low"] < 0.12
    assert found["effects_at_once"] == 8
    # what is added to tell them apart counts in nothing else
    assert found["verdicts"] == 4 * 600


def test_a_judge_that_reads_one_order_of_speaking_is_seen_through(
    tmp_path: Path, ruled: Callable[[str, Callable[[JudgeView], int | None]], Ruled]
) -> None:
    ruled("last-word", lambda view: view.statements[-1].answer)
    found = run_audit(AuditConfig("last-word", tasks="claims:test=40"), tmp_path / "a", created="x")
    assert found["speaking_bias"]["value"] == pytest.approx(-1)
    assert found["letter_bias"]["value"] == pytest.approx(0)
    assert found["position_bias"]["value"] == pytest.approx(-1)
    ruled("letter", lambda view: 0)
    found = run_audit(AuditConfig("letter", tasks="claims:test=40"), tmp_path / "b", created="x")
    assert found["speaking_bias"]["value"] == pytest.approx(0)
    assert found["letter_bias"]["value"] == pytest.approx(1)
