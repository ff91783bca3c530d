"""Filling seats: counted roles, people, judges."""

from __future__ import annotations

import pytest

from arena.protocols.errors import ConfigError
from arena.running import judges_of, lineup_of

TEXT = """
name: crowd
roles:
  debater: {count: 3, sees: [question, answers]}
  chair: {sees: [question]}
  panel: {count: 2, sees: [question, answers]}
nodes:
  talk: {speak: debater}
  close: {human: chair}
  verdict: {judge: panel}
edges: [start -> talk -> close -> verdict -> end]
"""


@pytest.fixture
def crowd(compiled):
    return compiled(TEXT)


def texts(lineup) -> dict[str, str]:
    return {seat: getattr(agent, "name", "") for seat, agent in lineup.items()}


def test_a_counted_role_fills_all_its_seats_and_a_seat_goes_before_it(crowd) -> None:
    lineup = lineup_of(crowd, {"debater": "silent", "debater-2": "echo", "chair": "silent"})
    assert texts(lineup) == {"debater-1": "silent", "debater-2": "echo", "debater-3": "silent", "chair": "silent"}
    assert lineup["debater-1"] is lineup["debater-3"]


def test_a_person_takes_the_seat_that_is_meant_for_one_unless_somebody_else_is_named(crowd) -> None:
    assert texts(lineup_of(crowd, {"debater": "silent"}))["chair"] == "human"
    assert texts(lineup_of(crowd, {"*": "silent"}))["chair"] == "silent"


def test_a_star_fills_the_rest(crowd) -> None:
    assert texts(lineup_of(crowd, {"*": "echo", "debater": "silent"})) == {
        "debater-1": "silent",
        "debater-2": "silent",
        "debater-3": "silent",
        "chair": "echo",
    }


def test_an_empty_seat_and_a_stranger_are_named(crowd) -> None:
    with pytest.raises(ConfigError, match="nobody fills 'debater-2' of protocol 'crowd': give --agent debater-2=SPEC"):
        lineup_of(crowd, {"debater-1": "silent", "debater-3": "silent"})
    with pytest.raises(ConfigError, match=r"'debatr' is not a speaking role.*Did you mean 'debater'"):
        lineup_of(crowd, {"debatr": "silent"})
    with pytest.raises(ConfigError, match="'panel' is not a speaking role"):
        lineup_of(crowd, {"*": "silent", "panel": "silent"})


def test_all_empty_seats_are_named_at_once_and_a_counted_role_by_its_name(compiled) -> None:
    two = compiled(TEXT.replace("{human: chair}", "{speak: chair}"))
    with pytest.raises(ConfigError, match=r"'debater' and 'chair' of .*: give --agent debater=SPEC --agent chair=SPEC"):
        lineup_of(two, {})
    with pytest.raises(ConfigError, match=r"nobody judges as 'panel' of"):
        judges_of(two, {}, seed=0)


def test_judges_are_seated_by_the_same_names(crowd) -> None:
    judges = judges_of(crowd, {"panel": "exact", "panel-2": "match"}, seed=0)
    assert [judges[seat].name.partition("@")[0] for seat in ("panel-1", "panel-2")] == ["exact", "match"]
    assert set(judges_of(crowd, {"*": "exact"}, seed=0)) == {"panel-1", "panel-2"}
    with pytest.raises(ConfigError, match=r"nobody judges as 'panel-2' of .*: give --judge panel-2=SPEC, or"):
        judges_of(crowd, {"panel-1": "exact"}, seed=0)
    with pytest.raises(ConfigError, match="'chair' is not a judging role"):
        judges_of(crowd, {"chair": "exact"}, seed=0)


def test_a_judge_for_a_protocol_without_one_is_passed_over_unless_it_is_named(compiled) -> None:
    talk = compiled(
        "name: talk\nroles: {a: {sees: [question]}}\nnodes: {say: {speak: a}}\nedges: [start -> say -> end]\n"
    )
    assert judges_of(talk, {"*": "exact"}, seed=0) == {}
    with pytest.raises(ConfigError, match="'judge' is not a judging role of protocol 'talk'"):
        judges_of(talk, {"judge": "exact"}, seed=0)


def test_a_role_that_speaks_and_judges_needs_both(compiled) -> None:
    text = """
name: asks
roles: {pro: {argues: 0, sees: [question, answers]}, judge: {sees: [question, answers]}}
nodes: {say: {speak: pro}, ask: {speak: judge}, verdict: {judge: judge}}
edges: [start -> say -> ask -> verdict -> end]
"""
    protocol = compiled(text)
    assert set(lineup_of(protocol, {"*": "silent"})) == {"pro", "judge"}
    assert set(judges_of(protocol, {"judge": "exact"}, seed=0)) == {"judge"}
