import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.protocols.records import Verdict, VerdictStatus
from arena.protocols.votes import Rule, combine_verdicts, count_votes, vote_verdict


@pytest.mark.parametrize(
    ("values", "plurality", "majority", "unanimous", "votes", "share", "cast"),
    [
        (["a", "b", "a"], "a", "a", None, 2, 2 / 3, 3),
        (["a", "a", "a"], "a", "a", "a", 3, 1.0, 3),
        (["a", "b"], None, None, None, 1, 0.5, 2),
        (["a", None, "a"], "a", "a", None, 2, 1.0, 2),
        (["a", None, None], "a", None, None, 1, 1.0, 1),
        (["b", "a", "a", "c", None], "a", None, None, 2, 0.5, 4),
        (["b", "b", "a", "a"], None, None, None, 2, 0.5, 4),
        ([None, None], None, None, None, 0, 0.0, 0),
        ([], None, None, None, 0, 0.0, 0),
        ([["x", 1], {"y": 2}, ["x", 1]], ["x", 1], ["x", 1], None, 2, 2 / 3, 3),
    ],
)
def test_who_wins(
    values: list[object], plurality: object, majority: object, unanimous: object, votes: int, share: float, cast: int
) -> None:
    for rule, choice in (("plurality", plurality), ("majority", majority), ("unanimous", unanimous)):
        assert count_votes(values, rule) == {
            "choice": choice,
            "votes": votes,
            "share": share,
            "cast": cast,
            "agreed": unanimous is not None,
        }


@pytest.mark.parametrize(
    ("values", "value", "cast"),
    [([1, 2, 6], 3.0, 3), (["7", " 8.0 ", None], 7.5, 2), (["seven", None], None, 0), ([True, False], 0.5, 2)],
)
def test_numbers_are_averaged(values: list[object], value: float | None, cast: int) -> None:
    found = count_votes(values, "mean")
    assert found["value"] == value
    assert found["cast"] == cast
    assert "choice" not in found


HALF, LOG3 = math.log(0.5), -math.log(3)


@pytest.mark.parametrize(
    ("indices", "rule", "status", "logps"),
    [
        ([0, 0, 1], "plurality", "scored", (math.log(2) + LOG3, LOG3)),
        ([1, 1], "unanimous", "scored", (-math.inf, 0.0)),
        ([1, 0], "plurality", "tie", (HALF, HALF)),
        ([1, 0, 2, 2, 0], "mean", "tie", (math.log(0.4), math.log(0.2), math.log(0.4))),
        ([1, None], "plurality", "scored", (-math.inf, 0.0)),
        ([1, None], "majority", "abstain", ()),
        ([1, 0], "majority", "abstain", ()),
        ([0, 0, 1], "unanimous", "abstain", ()),
        ([None, None], "plurality", "abstain", ()),
        ([], "plurality", "abstain", ()),
    ],
)
def test_a_vote_is_a_verdict(indices: list[int | None], rule: Rule, status: str, logps: tuple[float, ...]) -> None:
    verdict = vote_verdict(indices, 3 if 2 in indices else 2, rule, "vote")
    assert verdict.status == status
    assert verdict.logps == pytest.approx(logps)
    assert verdict.judge == "vote"


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=9),
    st.sampled_from(["plurality", "majority", "unanimous"]),
)
def test_verdict_and_count_name_the_same_winner(indices: list[int | None], rule: Rule) -> None:
    verdict = vote_verdict(indices, 4, rule, "vote")
    assert verdict.choice == count_votes(indices, rule)["choice"]
    if verdict.decidable:
        assert sum(map(math.exp, verdict.logps)) == pytest.approx(1)


def scored(*probabilities: float) -> Verdict:
    return Verdict(VerdictStatus.SCORED, "j", tuple(map(math.log, probabilities)))


TIE = Verdict(VerdictStatus.TIE, "j", (HALF, HALF))
BROKEN = Verdict(VerdictStatus.PARSE_ERROR, "j")


@pytest.mark.parametrize(
    ("verdicts", "rule", "status", "probabilities"),
    [
        ([scored(0.9, 0.1), scored(0.4, 0.6), BROKEN, None], "mean", "scored", (0.65, 0.35)),
        ([scored(0.9, 0.1), scored(0.1, 0.9)], "mean", "tie", (0.5, 0.5)),
        ([scored(0.9, 0.1), scored(0.4, 0.6), scored(0.3, 0.7)], "plurality", "scored", (1 / 3, 2 / 3)),
        ([scored(0.9, 0.1), TIE, BROKEN], "plurality", "scored", (1, 0)),
        ([scored(0.9, 0.1), TIE, BROKEN], "majority", "abstain", ()),
        ([scored(0.9, 0.1), scored(0.1, 0.9)], "plurality", "tie", (0.5, 0.5)),
        ([TIE, TIE], "mean", "tie", (0.5, 0.5)),
        ([TIE], "plurality", "abstain", ()),
        ([BROKEN, None], "mean", "abstain", ()),
        ([], "plurality", "abstain", ()),
    ],
)
def test_judges_are_combined(
    verdicts: list[Verdict | None], rule: Rule, status: str, probabilities: tuple[float, ...]
) -> None:
    combined = combine_verdicts(verdicts, rule, "panel")
    assert combined.status == status
    assert tuple(map(math.exp, combined.logps)) == pytest.approx(probabilities)
    assert combined.evidence["statuses"] == ["none" if v is None else v.status for v in verdicts]
