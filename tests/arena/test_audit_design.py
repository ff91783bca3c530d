"""How an audit shows its cases: balanced, and with nothing changed but what is to be measured."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from arena.audit.design import OTHER_FAMILY, Shown, presentations, view_of
from arena.audit.material import Case, from_tasks, pairs
from arena.audit.wording import PROBES, filler
from arena.judges.types import Statement
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task


def task(number: int, label: int | None = 0, answers: tuple[str, ...] = ("yes", "no")) -> Task:
    return Task(f"t{number}", {"question": f"Q{number}?", "answers": answers, "passage": "P"}, label)


def case(**changes: object) -> Case:
    said = (Statement("debater", 0, "Ann.", said="Ann."), Statement("debater", 1, "Bob.", said="Bob."))
    values = {"key": "k", "cluster": "k", "question": "Who?", "answers": ("Ann", "Bob"), "right": 1, "statements": said}
    return Case(**{**values, **changes})  # type: ignore[arg-type]


def lengths(shown: Shown) -> dict[str, int]:
    view = view_of(case(), shown, sees_label=False)
    return {view.answers[said.answer or 0]: len(said.text) for said in view.statements}


@pytest.mark.parametrize("length", [*range(4, 60), 333])
def test_filler_has_the_length_that_is_asked_for(length: int) -> None:
    assert len(filler(length)) == length
    assert filler(length)[0] == " "
    assert filler(length)[-1] == "."


def test_every_factor_is_balanced_and_apart_from_every_other() -> None:
    cases = from_tasks([task(number) for number in range(10)], ())
    shown = [each for several in presentations(cases, families=True, seed=3) for each in several if each.plain]
    assert len(shown) == 40
    for factor in ("order", "longer", "own"):
        assert Counter(getattr(each, factor) for each in shown) == {1: 20, -1: 20}
    for one, other in combinations(("order", "longer", "own"), 2):
        assert sum(getattr(each, one) * getattr(each, other) for each in shown) == 0


def test_each_setting_is_shown_in_both_orders() -> None:
    (shown,) = presentations([case()], families=True, seed=0)
    orders = Counter((each.longer, each.own) for each in shown if each.plain)
    assert sorted(orders.values()) == [2, 2]


def test_a_probe_stands_once_on_either_side_in_the_same_order() -> None:
    for shown in presentations([case(), case()], families=False, seed=0):
        for probe in PROBES:
            one, other = [each for each in shown if each.probe == probe]
            assert (one.mark, other.mark) == (1, -1)
            assert one.order == other.order


def test_the_first_answer_is_listed_and_argued_first() -> None:
    view = view_of(case(), Shown(order=1), sees_label=True)
    assert view.answers == ("Bob", "Ann")
    assert [said.text for said in view.statements] == ["Bob.", "Ann."]
    assert [said.answer for said in view.statements] == [0, 1]
    assert view.label == 0
    assert view_of(case(), Shown(order=-1), sees_label=True).label == 1


def test_only_instruments_that_are_told_the_label_are_told_it() -> None:
    assert view_of(case(), Shown(order=1), sees_label=False).label is None


def test_the_longer_side_says_the_same_and_more() -> None:
    assert lengths(Shown(order=1, longer=1))["Bob"] >= 4 + 160
    assert lengths(Shown(order=-1, longer=-1))["Ann"] >= 4 + 160
    assert lengths(Shown(order=-1, longer=-1))["Bob"] == 4


def test_a_short_statement_becomes_the_longer_one_all_the_same() -> None:
    said = (Statement("debater", 0, "A" * 1000), Statement("debater", 1, "B"))
    view = view_of(case(statements=said), Shown(order=1, longer=1), sees_label=False)
    assert len(view.statements[0].text) > len(view.statements[1].text)


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_does_not_make_its_statement_longer(probe: str) -> None:
    found = lengths(Shown(order=1, probe=probe, mark=1))
    assert found["Ann"] == found["Bob"] > 4


def test_what_is_added_was_also_said() -> None:
    view = view_of(case(), Shown(order=1, probe="flattery", mark=1), sees_label=False)
    assert all(said.said == said.text for said in view.statements)


def test_two_writers_change_places() -> None:
    other = (Statement("debater", 0, "Ann!"), Statement("debater", 1, "Bob!"))
    written = case(other=other)
    view = view_of(written, Shown(order=1, own=1), sees_label=False, family="mine")
    assert [(said.text, said.family) for said in view.statements] == [("Bob.", "mine"), ("Ann!", OTHER_FAMILY)]
    view = view_of(written, Shown(order=1, own=-1), sees_label=False)
    assert [(said.text, said.family) for said in view.statements] == [("Bob!", ""), ("Ann.", "")]


def test_turns_of_a_debate_that_was_held_stay_in_their_order() -> None:
    said = (Statement("pro", 0, "One."), Statement("con", 1, "Two."), Statement("host", None, "Three."))
    view = view_of(case(statements=said, held=True), Shown(order=1), sees_label=False)
    assert [(each.text, each.answer) for each in view.statements] == [("One.", 1), ("Two.", 0), ("Three.", None)]


def test_a_case_in_which_one_side_is_silent_is_only_turned_round() -> None:
    silent = case(statements=(Statement("consultant", 0, "Ann."),))
    (shown,) = presentations([silent], families=False, seed=0)
    assert shown == [Shown(1), Shown(-1)]


def test_of_many_answers_the_right_one_and_a_wrong_one_are_shown() -> None:
    kept, _ = pairs([task(number, 2, ("a", "b", "c", "d")) for number in range(30)], seed=0)
    assert all(each.answers[each.label or 0] == "c" for each in kept)
    assert {answer for each in kept for answer in each.answers} == {"a", "b", "c", "d"}


def test_tasks_without_label_or_answers_are_counted() -> None:
    kept, left_out = pairs([task(0), task(1, None), task(2, 0, ("a",))], seed=0)
    assert [each.id for each in kept] == ["t0"]
    assert left_out == {"no label": 1, "fewer than two answers": 1}
    with pytest.raises(ConfigError, match="a label and two answers"):
        pairs([task(1, None)], seed=0)


def test_the_judge_sees_what_it_is_said_to_see() -> None:
    (found,) = from_tasks([task(0)], ("passage",))
    assert view_of(found, Shown(order=1), sees_label=False).fields == {"passage": "P"}
    with pytest.raises(ConfigError, match="no field 'evidence'"):
        from_tasks([task(0)], ("evidence",))


def test_letter_and_speaking_order_are_shown_apart() -> None:
    (shown,) = presentations([case()], families=False, seed=0)
    crossed = [each for each in shown if each.crossed]
    assert [(each.order, each.spoken) for each in crossed] == [(1, -1), (-1, 1)]
    view = view_of(case(), crossed[0], sees_label=False)
    assert view.answers == ("Bob", "Ann")
    assert [view.answers[said.answer or 0] for said in view.statements] == ["Ann", "Bob"]


def test_the_order_of_a_debate_that_was_held_is_not_changed() -> None:
    (shown,) = presentations([case(held=True)], families=False, seed=0)
    assert not any(each.crossed for each in shown)
