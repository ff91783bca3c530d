"""Self-play from recipe to results, on a recipe cut down to seconds; that it learns is shown by the demo."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from arena.cli.app import app
from arena.judges import JUDGES, JudgeView
from arena.protocols.errors import ConfigError, ResumeError, SourceError, StoreError, UndecidedError
from arena.protocols.records import Verdict, VerdictStatus
from arena.rewards import Payoff, pay
from arena.store import Store
from arena.training.crediting import paid_turns
from arena.training.launch import Outcome, launch
from arena.training.policies import PolicyLoader
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay
from arena.training.study import metrics_rows
from arena.training.world import World, build_world

SMALL = {
    "judge.train.steps": 30,
    "evaluation.judge.train.steps": 30,
    "warm_start.steps": 6,
    "warm_start.tasks": 8,
    "warm_start.learner.warmup": 0,
    "warm_start.learner.total_steps": 6,
    "self_play.generations": 2,
    "self_play.steps": 3,
    "self_play.tasks": 4,
    "self_play.group": 4,
    "self_play.learner.total_steps": 6,
    "evaluation.tasks": 10,
    "evaluation.tournament": 6,
    "evaluation.exploiter_tasks": 4,
}

SMALL_AS_IT_IS = {key: value for key, value in SMALL.items() if "judge" not in key}

pytestmark = pytest.mark.slow


def ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""


def train(out: Path, *, seed: int = 3, on_event: Callable[[dict[str, Any]], None] = ignore, **options: Any) -> Outcome:
    return launch(load_recipe("facts", SMALL), out, seed=seed, created="2026-01-31", on_event=on_event, **options)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return train(tmp_path_factory.mktemp("facts") / "run", control=True)


def weights(out: Path) -> dict[str, torch.Tensor]:
    state = torch.load(out / "checkpoint.pt", weights_only=True)["learners"]["debater"]
    return {name: tensor for name, tensor in _flat("", state) if isinstance(tensor, torch.Tensor)}


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for key, part in value.items() for pair in _flat(f"{prefix}.{key}", part)]
    if isinstance(value, list):
        return [pair for key, part in enumerate(value) for pair in _flat(f"{prefix}.{key}", part)]
    return [(prefix, value)]


def test_the_json_has_what_the_command_promises(outcome: Outcome) -> None:
    results = json.loads((outcome.out / "results.json").read_text())
    assert list(results["arms"]) == ["random", "consultancy", "debate_gen0", "debate_gen1", "debate_gen2", "full"]
    for name, arm in results["arms"].items():
        assert 0 <= arm["low"] <= arm["accuracy"] <= arm["high"] <= 1
        assert arm["n"] == (10 if name == "full" else 20)
        assert arm["decidable"] == arm["n"]
    for series in ("elo", "kl", "exploitability", "bad_quotes"):
        assert len(results[series]) == 3
    assert results["elo"][0] == 0.0
    assert results["kl"][0] == 0.0
    assert len(results["control"]["elo"]) == 3
    assert 0 < results["seconds"]["trained"] < results["seconds"]["total"]


def test_another_judge_measures_than_the_one_that_rewards(outcome: Outcome) -> None:
    plain = json.loads((outcome.out / "results.json").read_text())
    rewards, measures = outcome.world.judge, outcome.world.measures
    assert rewards.name == plain["judge"]["name"] != plain["evaluation_judge"]["name"] == measures.name
    assert plain["same_judge"] is False
    assert JUDGES.build(f"llm:path={outcome.out / 'evaluation_judge'}").name == measures.name
    with Store.open(outcome.out, create=False) as store:
        judges = {episode.verdict.judge for episode in store.run().episodes() if episode.verdict is not None}
    assert judges == {measures.name}
    # Only trained policies can have learned to please the judge that rewarded them.
    told = {name for name, row in plain["arms"].items() if "training_judge" in row}
    assert told == {"consultancy", "debate_gen0", "debate_gen1", "debate_gen2"}
    assert plain["arms"]["debate_gen2"]["training_judge"]["n"] == plain["arms"]["debate_gen2"]["n"]


def test_one_judge_for_both_is_refused_by_name_and_told_where_it_is_wanted(outcome: Outcome, tmp_path: Path) -> None:
    kept = {"kind": "llm", "args": {"path": str(outcome.out / "judge")}}
    link = tmp_path / "other-path"
    link.symlink_to(outcome.out / "judge")
    other = {"kind": "llm", "args": {"path": str(link)}}
    with pytest.raises(ConfigError, match="the very instrument that rewards training"):
        build_world(load_recipe("facts", {**SMALL_AS_IT_IS, "judge": kept, "evaluation.judge": other}), 3, ignore)
    same = {"judge": kept, "evaluation.judge": None, "evaluation.same_judge": True}
    world = build_world(load_recipe("facts", {**SMALL_AS_IT_IS, **same}), 3, ignore)
    assert world.measures is world.judge


def test_the_report_is_one_page_without_requests_that_shows_graph_and_transcripts(outcome: Outcome) -> None:
    page = (outcome.out / "report.html").read_text()
    assert "<svg" in page
    assert "debate_gen2" in page
    assert "shuffled advantages" in page
    assert 'src="http' not in page
    assert "<script" not in page


def test_every_evaluation_game_is_stored_with_its_tokens(outcome: Outcome) -> None:
    with Store.open(outcome.out, create=False) as store:
        run = store.run()
        assert {"arm/random", "arm/debate_gen2", "tournament", "exploitability", "control/tournament"} <= set(
            run.stages()
        )
        series = [run.series(name)[0]["ratings"] for name in ("ratings", "control/ratings")]
        episode = next(run.episodes("arm/debate_gen2"))
        assert len(list(run.episodes("tournament"))) == 3 * 6 * 2
    main, control = ([row["elo"] for row in rows] for rows in series)
    assert sorted(main) == sorted(
        outcome.results.elo()
    )  # the control's table stands beside the run's, not in its place
    assert outcome.control is not None
    assert sorted(control) == sorted(outcome.control.elo())
    spans = [turn.tokens for turn in episode.turns]
    assert all(span is not None and len(span.ids) == 1 and span.logps is not None for span in spans)
    assert spans[0] is not None
    assert spans[0].policy == "debater@v7"  # the warm start and two generations of three steps
    assert episode.verdicts["verdict"].status is VerdictStatus.SCORED


def test_ratings_report_and_export_work_on_what_training_leaves(outcome: Outcome, tmp_path: Path) -> None:
    def arena(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.stdout

    out = str(outcome.out)
    rated = json.loads(arena("ratings", out, "--json"))
    results = json.loads((outcome.out / "results.json").read_text())
    assert rated == {"ratings": results["ratings"], "note": results["note"]}
    assert [row["name"] for row in rated["ratings"]] == ["gen0", "gen1", "gen2"]
    assert "gen2" in arena("ratings", out)
    page = tmp_path / "page.html"
    assert arena("report", out, "--out", str(page)) == f"{page}\n"
    assert "debate_gen2" in page.read_text()
    games = [json.loads(line) for line in arena("export", out, "--stage", "tournament").splitlines()]
    assert len(games) == 3 * 6 * 2
    assert len(arena("export", out).splitlines()) > len(games)


def test_self_check_ran_and_found_ratio_one_and_no_kl(outcome: Outcome) -> None:
    row = next(row for row in metrics_rows(outcome.out / "metrics.jsonl") if row["phase"] == "self-check")
    assert row["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert row["kl_max"] == pytest.approx(0.0, abs=1e-6)


def test_a_run_is_a_function_of_recipe_and_seed(outcome: Outcome, tmp_path: Path) -> None:
    again = train(tmp_path / "again")
    first, second = weights(outcome.out), weights(again.out)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert {n: a.plain() for n, a in again.results.arms.items()} == {
        n: a.plain() for n, a in outcome.results.arms.items()
    }
    other = train(tmp_path / "other", seed=4)
    assert any(not torch.equal(first[name], tensor) for name, tensor in weights(other.out).items())


class StopError(Exception):
    """Pulls the plug."""


@pytest.mark.parametrize("moment", ["in the second generation", "in the tournament"])
def test_an_interrupted_run_resumes_to_the_same_end(outcome: Outcome, tmp_path: Path, moment: str) -> None:
    def pull(event: dict[str, Any]) -> None:
        if moment == "in the tournament" and event.get("part") == "tournament":
            raise StopError
        if event.get("generation") == 2 and event.get("step") == 2:
            raise StopError

    with pytest.raises(StopError):
        train(tmp_path / "run", on_event=pull)
    with pytest.raises(StoreError, match="already holds"):
        train(tmp_path / "run")
    with pytest.raises(ResumeError, match="seed"):
        train(tmp_path / "run", seed=4, resume=True)
    resumed = train(tmp_path / "run", resume=True)
    first, second = weights(outcome.out), weights(resumed.out)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert resumed.results.elo() == outcome.results.elo()
    kept = ("phase", "step", "generation", "loss", "kl_per_turn", "accuracy")
    rows = [
        [{k: row.get(k) for k in kept} for row in metrics_rows(o.out / "metrics.jsonl")] for o in (outcome, resumed)
    ]
    assert rows[0] == rows[1]
    with Store.open(resumed.out, create=False) as store:
        stored = store.run().series("metrics")
    assert list(stored.values()) == list(metrics_rows(resumed.out / "metrics.jsonl"))
    assert list(stored) == list(range(len(stored)))


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(load_recipe("facts", SMALL), 0, ignore)


def test_advantages_compare_a_turn_with_the_same_turn_of_its_group(world: World, tmp_path: Path) -> None:
    player = SelfPlay(world, tmp_path, ignore)
    played = player.rollouts(0)
    episodes = played.episodes
    keys = [episode.key.split("/")[:2] for episode in episodes]
    assert keys == [["0", str(group)] for group in range(4) for _ in range(4)]
    assert all(len({e.task for e in episodes[i : i + 4]}) == 1 for i in range(0, 16, 4))
    undecided = Verdict(VerdictStatus.ABSTAIN, "nobody")
    payoffs = [Payoff([float(i % 4 == 0), 0.0, None, 1.0], undecided) for i in range(len(episodes))]
    turns = paid_turns(episodes, payoffs, played.groups, played.sides(), player.protocol.seats)
    sequences = player._credited(played, turns, player._learners(), {})["debater"]
    by_role = {role: [s for s in sequences if s.role == role] for role in ("first", "second")}
    # The second turn of the first role has no reward and is context only; those of the second role all earned alike.
    assert all(len(s.positions) == 1 for s in by_role["first"])
    assert all(s.advantages == [0.0, 0.0] for s in by_role["second"])
    values = [s.advantages[0] for s in by_role["first"]]
    assert values == pytest.approx([values[0], values[1], values[1], values[1]] * 4)
    assert values[0] == pytest.approx(-3 * values[1])


PICKED = """
name: picked
extends: evidence-debate
params: {pay: null, bad_quote: null}
roles:
  rater: {sees: [answers], hears: quotes}
nodes:
  one: {best_of: {n: 3, by: rater, value: margin}}
  thought: {speak: second, cue: "{{ answer }}", limit: {tokens: 1}, to: nobody}
edges:
  - start -> one -> thought -> two -> verdict -> end
  - {from: two, to: one, times: rounds - 1}
rewards:
  - {verdict: verdict, value: tanh(margin / 2), pay: each_turn, bad_quote: -0.5}
  - {roles: [second], value: "-words", pay: turn}
"""


def test_candidates_and_thoughts_are_branches_and_only_what_is_paid_is_trained(world: World, tmp_path: Path) -> None:
    (tmp_path / "picked.yaml").write_text(PICKED)
    changes = {"protocol": str(tmp_path / "picked.yaml"), "params": {}, "evaluation.tournament": 0}
    recipe = load_recipe("facts", {**SMALL, **changes})
    picked = replace(world, recipe=recipe)
    rows: list[dict[str, Any]] = []
    player = SelfPlay(picked, tmp_path / "run", rows.append)
    played = player.rollouts(0)
    episodes = played.episodes
    payoffs = pay(player.protocol, world.judge, episodes, player.by_id)
    turns = paid_turns(episodes, payoffs, played.groups, played.sides(), player.protocol.seats)
    made = [
        s for s in player._credited(played, turns, player._learners(), {})["debater"] if s.episode == episodes[0].key
    ]
    # Turns of first: three candidates twice, of which one each is kept; of second: thought, quote, thought, quote.
    kept = [turn.kept for turn in episodes[0].turns_of("first")]
    assert sorted(kept) == [False] * 4 + [True] * 2
    stream, *rest = (s for s in made if s.role == "first")
    assert rest == []
    assert stream.turns == [ordinal for ordinal, is_kept in enumerate(kept) if is_kept]
    assert sorted(sequence.turns for sequence in made if sequence.role == "second") == [[0], [1, 3], [2]]
    player.run()  # the self-check holds for branches as well: what the sampler said is what the trainer finds
    check = next(row for row in rows if row.get("phase") == "self-check")
    assert check["ratio_max"] == pytest.approx(1.0, abs=1e-4)


class HalfBlind:
    """Cannot decide every second episode."""

    sees_label = False

    def __init__(self, judge: Any) -> None:
        self.inner = judge
        self.name = f"half of {judge.name}"

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        blind = Verdict(VerdictStatus.ABSTAIN, self.name, evidence={"reason": "closed this eye"})
        verdicts = self.inner.judge(views)
        return [blind if int(v.key[-1]) % 2 else found for v, found in zip(views, verdicts, strict=True)]


def test_training_stops_where_too_many_verdicts_cannot_be_used(world: World, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    half = replace(world, judge=HalfBlind(world.judge))
    with pytest.raises(UndecidedError, match=r"generation 1, step 2: .* 50\.0% of 32: 16 abstain \(closed this eye\)"):
        SelfPlay(half, tmp_path, rows.append).run()
    assert [row["undecidable_by"] for row in rows if row.get("phase") == "self-play"] == [{"abstain": 8}] * 2
    assert (tmp_path / "checkpoint.pt").is_file(), "generation 0 is kept"
    allowed = load_recipe("facts", {**SMALL, "judge.max_undecidable": 0.5, "self_play.generations": 1})
    trained = SelfPlay(replace(half, recipe=allowed), tmp_path, ignore).run(resume=True)
    (found,) = trained.undecided
    assert (found["verdicts"], found["undecidable"], found["too_many"]) == (48, 24, False)


def _with(world: World, key: str, value: Any) -> World:
    recipe = load_recipe("facts", {**SMALL, key: value})
    return replace(world, recipe=recipe)


def test_an_adapter_trains_beside_a_frozen_base(world: World, tmp_path: Path) -> None:
    adapted = _with(world, "policies.debater.binding", "adapter")
    player = SelfPlay(adapted, tmp_path, ignore)
    base = {n: p.clone() for n, p in player.policies["debater"].model.network.named_parameters() if "lora" not in n}
    trained = player.run()
    after = dict(player.policies["debater"].model.network.named_parameters())
    assert all(torch.equal(after[name], tensor) for name, tensor in base.items())
    assert trained.kl[-1] > 0
    last = trained.generations[-1]
    loaded = PolicyLoader(adapted.recipe, adapted.seed).one("debater", last, suffix="-gen2")
    kept = {n: p for n, p in after.items() if ".debater." in n}
    again = dict(loaded.model.network.named_parameters())
    assert kept
    assert all(torch.equal(again[n.replace(".debater.", ".debater-gen2.")], p) for n, p in kept.items())
    assert loaded.id == f"debater@v{last.versions['debater']}"


def test_training_on_the_questions_that_are_reported_is_refused(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"id": "one", "question": "?", "answers": ["ann", "bob"], "evidence": ["ann+1"], "label": 0}\n')
    with pytest.raises(ConfigError, match="trained on and tested on, such as 'one'; hold some out"):
        build_world(load_recipe("facts", {**SMALL, "tasks": str(tasks)}), 0, ignore)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("self_play.learner.betas=[2, 3]", "betas"),
        ("threads=100000", "threads"),
        ("policies.debater.lora.r=abc", "'r' of a LoRA must be a whole number, not 'abc'"),
        ("policies.debater.model.layers=two", "'layers' of a model 'tiny' must be a whole number, not 'two'"),
    ],
)
def test_numbers_that_cannot_work_are_told_before_anything_is_built(override: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        load_recipe("facts", ["policies.debater.binding=adapter", override])
