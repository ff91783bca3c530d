"""The tournament file: what it may say, and that every mistake in it is told at once, with its place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from arena.cli.plugins import load_plugin
from arena.protocols.errors import ConfigError, SourceError
from arena.scheduling.early_stop import EarlyStop
from arena.scheduling.fixed import Gauntlet
from arena.tournament import TournamentConfig, check_tournament, load_tournament, run_tournament
from arena.tournament.entries import entries_of
from arena.tournament.world import build_schedule

load_plugin(str(Path(__file__).with_name("numbers_game.py")))
game = sys.modules["arena_plugin_numbers_game"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    game.write_tasks(Path("q.jsonl"), 6)


def load(**changes: Any) -> TournamentConfig:
    return load_tournament(game.write_file(Path("t.yaml"), **changes))


def faults(**changes: Any) -> str:
    with pytest.raises(SourceError) as caught:
        load(**changes)
    return str(caught.value)


ALL_WRONG = """\
tournament: cup
protocol: debat
tasks: gone.jsonl
n: 4
agents:
  ann: "numbr:elo=0"
  bob: "number:ello=3"
  c|y: number
judge: largset
judges: {other: "llm-api:modl=x"}
schedule: {kind: swis, rounds: 2}
sprt: {elo0: 50, elo1: 10}
arms:
  blind: {protocol: naive, lineup: ann}
  talk: {protocol: consultancy}
  twice: {protocol: self-consistency, lineup: anna, equal_tokens: tallk}
covariates: [lenght, order, order]
anchor: anne
"""


def test_every_mistake_is_told_at_once_with_its_place() -> None:
    Path("t.yaml").write_text(ALL_WRONG)
    with pytest.raises(SourceError) as caught:
        load_tournament(Path("t.yaml"))
    told = {(fault.line, fault.column, fault.where): fault.what for fault in caught.value.faults}
    assert {place[0] for place in told} >= {2, 3, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18}
    assert [fault.line for fault in caught.value.faults] == sorted(fault.line for fault in caught.value.faults)
    assert "Did you mean 'debate'" in told[2, 11, "protocol"]
    assert "there is no file 'gone.jsonl'" in told[3, 8, "tasks"]
    assert "Did you mean 'number'" in told[6, 8, "agents.ann"]
    assert "Did you mean 'elo'" in told[7, 8, "agents.bob"]
    assert "Did you mean 'swiss'" in told[11, 11, "schedule"]
    assert "elo0 < elo1" in told[12, 7, "sprt"]
    assert "nobody speaks in protocol 'naive'" in told[14, 28, "arms.blind.lineup"]
    assert "who plays consultant of protocol 'consultancy'?" in told[15, 3, "arms.talk"]
    assert "Did you mean 'talk'" in told[16, 67, "arms.twice.equal_tokens"]
    assert "Did you mean 'length'" in told[17, 14, "covariates[0]"]
    assert "named twice" in told[17, 29, "covariates[2]"]
    assert "Did you mean 'ann'" in told[18, 9, "anchor"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"protocol": None}, "which protocol?"),
        ({"protocols": {"x": {"protocol": "debate"}}}, "there is 'protocol' already"),
        ({"protocol": None, "protocols": {"x": {"protocol": "debate"}}}, "of which protocol?"),
        ({"protocol": "consultancy"}, "1 arguing seats"),
        ({"params": {"rounds": 1, "wrods": 3}}, "Did you mean 'words'"),
        ({"agents": {"ann": "number"}}, "at least two agents"),
        ({"agents": {"ann": "number", "a|b": "number"}}, "'a|b' is not a name of an agent: it has a '|'"),
        ({"agents": {"ann": "number", "a\nb": "number"}}, "'a\\nb' is not a name of an agent: it has signs"),
        ({"agents": {"ann": "number", "\x1b[31mbob": "number"}}, "'\\x1b[31mbob' is not a name of an agent"),
        ({"agents": {"ann": "number", "": "number"}}, "'' is not a name of an agent: it is empty"),
        ({"agents": {"ann": "number", "ann ": "number"}}, "'ann ' is not a name of an agent"),
        ({"agents": {"\u00e9": "number", "e\u0301": "number"}}, "two agents are called 'e\u0301'"),
        ({"judges": {"a\tb": "largest"}}, "'a\\tb' is not a name of a judge"),
        ({"arms": {"": {"protocol": "naive"}}}, "'' is not a name of an arm"),
        ({"arms": {"a/b": {"protocol": "naive"}}}, "it has a '/'"),
        ({"protocol": None, "params": None, "protocols": {"": {"protocol": "debate"}}}, "a name of a protocol here"),
        ({"agents": {"ann": "number", "generations": "nowhere"}}, "nowhere holds no training of policies"),
        ({"schedule": "swiss", "sprt": {"block": 1}}, "schedule 'swiss' chooses pairings by results itself"),
        ({"schedule": {"kind": "swiss", "rounds": 3}}, None),
        ({"schedule": {"kind": "swiss", "rounds": 4}}, "schedule.rounds: 'rounds' of schedule 'swiss' is 4"),
        ({"schedule": {"kind": "round_robin", "rounds": 4}}, "'rounds' is not an argument of schedule 'round_robin'"),
        ({"schedule": {"kind": "swiss", "rounds": "many"}}, "'rounds' of schedule 'swiss' must be a whole number"),
        ({"schedule": "gauntlet"}, "schedule 'gauntlet' needs 'new'"),
        ({"schedule": {"kind": "gauntlet", "new": ["cyy"]}}, "Did you mean 'cy'"),
        ({"sprt": {"block": 6}}, "a block of 6 tasks is the whole pairing"),
        ({"sprt": {"elo1": 1e6, "block": 2}}, "sprt: elo0=0.0 and elo1=1000000.0: bounds are within 2000"),
        ({"sprt": {"blok": 2}}, "Did you mean 'block'"),
        ({"budget": {"game": 2}}, "Did you mean 'games'"),
        ({"arms": {"talk": {"protocol": "consultancy", "lineup": "numbr"}}}, "neither an agent of this file"),
        ({"arms": {"talk": {"protocol": "self-refine", "lineup": "ann"}}}, "gives no verdict"),
        (
            {"arms": {"talk": {"protocol": "consultancy", "lineup": "agents"}, "talk_ann": {"protocol": "naive"}}},
            "the row 'talk_ann' is made by the arm 'talk' too",
        ),
        (
            {
                "arms": {
                    "talk": {"protocol": "consultancy", "lineup": "ann"},
                    "same": {"protocol": "consultancy", "lineup": "ann", "equal_tokens": "talk"},
                }
            },
            "has to have a parameter 'tokens'",
        ),
        ({"intervals": "profil"}, "is not one of"),
        ({"online": ["glicko"]}, "is not one of"),
        ({"online": ["elo", "elo"]}, "online[1]: 'elo' is named twice"),
        ({"max_undecidable": 2}, "max_undecidable"),
    ],
)
def test_what_cannot_work_or_has_no_effect_is_refused(changes: dict[str, Any], fault: str | None) -> None:
    if fault is None:
        load(**changes)
        return
    told = faults(**changes)
    assert fault in told
    assert told.startswith("t.yaml:")


def test_a_configuration_in_python_is_checked_in_the_same_way() -> None:
    config = load()
    with pytest.raises(SourceError, match=r"tournament 'cup':0:0: anchor: 'zoe' is not one of the agents"):
        run_tournament(config.model_copy(update={"anchor": "zoe"}), "out", created="now")
    assert not Path("out").exists()


def test_several_protocols_play_several_pairs_a_task_which_no_sequential_test_takes() -> None:
    two = {"one": {"protocol": "debate"}, "two": {"protocol": "debate-sequential"}}
    assert "its unit is one pair of games a task" in faults(
        protocol=None, params=None, protocols=two, sprt={"block": 2}
    )


def test_faults_of_a_protocol_file_keep_their_own_place() -> None:
    Path("p.yaml").write_text("name: p\nroles:\n  pro: {argus: 0}\nnodes: {}\nedges: []\n")
    assert "p.yaml:3:9" in faults(protocol="p.yaml", params=None)


def test_whatever_lies_beside_the_file_is_found_from_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    training(Path("run"), policies={"debater": {}}, roles={"proponent": "debater", "opponent": "debater"})
    game.write_file(Path("t.yaml"), agents={"ann": "number", "generations": "run"})
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    config = load_tournament(Path("../t.yaml"))
    assert config.tasks == "../q.jsonl"
    assert list(entries_of(config.agents)) == ["ann", "gen0", "gen1", "gen2"]


def test_the_schedule_gets_the_agents_and_is_cut_where_a_test_may_stop_it() -> None:
    config = load(schedule={"kind": "gauntlet", "new": ["cy"]}, sprt={"block": 2})
    schedule = build_schedule(config, tuple(config.agents))
    assert isinstance(schedule, EarlyStop)
    assert isinstance(schedule.schedule, Gauntlet)


def training(folder: Path, *, policies: dict[str, Any], roles: dict[str, Any], generations: int = 3) -> None:
    """A run directory as `arena train` leaves it, without weights."""
    for number in range(generations):
        for name in policies:
            (folder / "generations" / f"gen{number}" / name).mkdir(parents=True)
    recipe = {"recipe": "r", "policies": policies, "roles": roles}
    (folder / "config.json").write_text(json.dumps({"recipe": recipe, "seed": 0}))


def test_each_generation_of_a_training_takes_part_as_its_recipe_samples() -> None:
    settings = {"temperature": 0.5, "max_tokens": 9}
    training(Path("run"), policies={"debater": settings}, roles={"proponent": "debater"}, generations=11)
    entries = entries_of({"generations": "run"})
    assert list(entries) == [f"gen{number}" for number in range(11)]
    spec = {"kind": "generation", "path": "run/generations/gen10/debater", **settings}
    assert entries["gen10"].spec_of("proponent") == spec
    assert entries["gen10"].spec_of("whoever") == spec  # the only policy there is
    entries["gen10"].check()


def test_several_trainings_and_several_policies_take_part() -> None:
    roles = {"proponent": "pro", "opponent": "con", "helper": "silent"}
    training(Path("one"), policies={"pro": {}, "con": {}}, roles=roles, generations=1)
    training(Path("two"), policies={"debater": {}}, roles={"debater": "debater"}, generations=1)
    entries = entries_of({"generations": {"a": "one", "b": "two"}})
    assert list(entries) == ["a-gen0", "b-gen0"]
    specs = [entries["a-gen0"].spec_of(role) for role in ("proponent", "opponent", "helper")]
    assert [spec if isinstance(spec, str) else spec["path"] for spec in specs] == [
        "one/generations/gen0/pro", "one/generations/gen0/con", "silent",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="has no policy for the role 'judge'"):
        entries["a-gen0"].spec_of("judge")
    assert entries["b-gen0"].spec_of("debater-2") == entries["b-gen0"].spec_of("debater")


def test_a_seat_without_a_policy_is_a_fault_of_the_file() -> None:
    training(Path("run"), policies={"x": {}, "y": {}}, roles={"proponent": "x", "critic": "y"})
    told = faults(agents={"ann": "number", "generations": "run"})
    assert "agents.generations: 'gen0' has no policy for the role 'opponent'" in told


def test_the_shipped_example_and_the_schema_agree() -> None:
    schema = TournamentConfig.model_json_schema()
    shipped = yaml.safe_load((Path(__file__).parents[2] / "examples" / "tournament.yaml").read_text())
    assert shipped.keys() <= schema["properties"].keys()
    assert all("description" in field for field in schema["properties"].values())
    check_tournament(load())
