import json
import math
import timeit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols.errors import NumericalError, StoreError
from arena.protocols.records import Episode, Quote, Sampling, TokenSpan, Turn, TurnStatus, Verdict, VerdictStatus
from arena.records_json import from_json, to_json, verdict_fields

text = st.text(max_size=12)
maybe_text = st.none() | text
number = st.floats(allow_nan=False)
ids = st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
numbers = st.lists(number, max_size=4).map(tuple)
evidence = st.recursive(
    st.none() | st.booleans() | st.integers() | number | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(text | st.sampled_from(["$tuple", "$float", "$map"]), inner, max_size=3)
    ),
    max_leaves=8,
)
spans = st.builds(
    TokenSpan,
    ids,
    ids,
    st.none() | numbers,
    text,
    st.builds(Sampling, number, number, st.integers(0, 9)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9),
    st.none() | st.lists(ids, max_size=3).map(tuple),
)
fields = st.dictionaries(text | st.sampled_from(["$tuple", "$float"]), evidence, max_size=3)
turns = st.builds(
    Turn,
    st.integers(0, 99),
    st.integers(0, 99),
    text,
    text,
    st.integers(0, 9),
    text,
    st.none() | st.integers(0, 3),
    text,
    st.sampled_from(TurnStatus),
    st.lists(st.builds(Quote, text, st.booleans(), st.booleans()), max_size=2).map(tuple),
    st.none() | st.lists(text, max_size=2).map(tuple),
    st.none() | spans,
    maybe_text,
    fields,
    ids,
    st.none() | st.integers(0, 9),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    text,
    st.none() | st.integers(0, 99),
    st.integers(0, 99),
)
verdicts = st.builds(
    Verdict,
    st.sampled_from(VerdictStatus),
    text,
    numbers,
    st.none() | st.integers(0, 3),
    fields,
)
episodes = st.builds(
    Episode,
    text,
    text,
    text,
    st.dictionaries(text, text, max_size=3),
    ids,
    st.lists(turns, max_size=3),
    st.dictionaries(text, verdicts, max_size=2),
    text,
    maybe_text,
    st.dictionaries(text, verdicts, max_size=2),
    st.dictionaries(text, ids, max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(episodes)
def test_round_trip_is_exact(episode):
    line = to_json(episode)
    again = from_json(line)
    assert again == episode
    assert repr(again) == repr(episode)  # tells -0.0 from 0.0, 1 from 1.0 and True, tuples from lists
    assert line.isascii()
    json.loads(line, parse_constant=pytest.fail)  # no NaN or Infinity: any JSON reader can read it


def four_turns():
    made = [
        Turn(
            i,
            i,
            "speak",
            "ab"[i % 2],
            i // 2,
            "debater@v3",
            i % 2,
            "b3=2",
            TurnStatus.OK,
            (Quote("b3=2", True),),
            None,
            TokenSpan(tuple(range(20 if i < 2 else 3)), (17,), (-1.2345678901234567,), "debater@v3", Sampling(), i < 2),
        )
        for i in range(4)
    ]
    verdict = Verdict(VerdictStatus.SCORED, "mlp#ab12", (-0.123456789012, -2.1234567890123))
    return Episode(
        "run/12/3", "debate", "t12", {"a": "debater@v3", "b": "debater@v3"}, (0, 1), made, {"judge": verdict}
    )


def test_writing_costs_little_more_than_json_itself():
    episode = four_turns()
    plain = json.loads(to_json(episode))

    def seconds(call):
        return min(timeit.repeat(call, number=100, repeat=7))

    # About 2 on a quiet core (25 µs); pydantic or a deep copy would make it 10 and more.
    assert seconds(lambda: to_json(episode)) < 6 * seconds(lambda: json.dumps(plain))


def test_nan_is_refused_with_its_place():
    episode = four_turns()
    assert episode.turns[2].tokens is not None
    episode.turns[2].tokens.logps = (math.nan,)
    with pytest.raises(NumericalError, match=r"turns\[2\]\.tokens\.logps\[0\] is NaN"):
        to_json(episode)
    episode = four_turns()
    episode.verdicts["judge"].evidence = {"orders": [(0.5, math.nan)]}
    with pytest.raises(NumericalError, match=r"evidence\.orders\[0\]"):
        to_json(episode)
    episode = four_turns()
    episode.turns[0].fields = {"score": math.nan}
    with pytest.raises(NumericalError, match=r"turns\[0\]\.fields\.score"):
        to_json(episode)


@pytest.mark.parametrize("value", [{1: "a"}, {"deep": [{2: 3}]}, {"thing": object()}, {"set": {1}}])
def test_evidence_that_json_cannot_carry_is_refused(value):
    episode = four_turns()
    episode.verdicts["judge"].evidence = value
    with pytest.raises(StoreError):
        to_json(episode)


def test_what_most_turns_lack_is_left_out():
    turn = json.loads(to_json(four_turns()))["turns"][0]
    assert set(turn) == {
        *("index", "superstep", "node", "role", "visit", "agent", "answer", "text", "status", "quotes", "tokens")
    }
    assert set(turn["tokens"]) == {"prompt", "ids", "logps", "policy", "sampling", "fresh"}
    assert {"inner_verdicts", "judged"}.isdisjoint(json.loads(to_json(four_turns())))


@pytest.mark.parametrize("value", [2**70, "\ud800", "\u00e9\u2028", -0.0, 5e-324, 1e16, 0.1 + 0.2])
def test_numbers_and_texts_beyond_the_usual_come_back_exactly(value):
    episode = four_turns()
    episode.turns[1].fields = {"value": value}
    line = to_json(episode)
    assert line.isascii()
    assert repr(from_json(line)) == repr(episode)


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "{}", "null", '{"key": 1}', to_json(four_turns()).replace('"ok"', '"so-so"')]
)
def test_what_is_no_episode_is_told(line):
    with pytest.raises(StoreError, match="not a stored episode"):
        from_json(line)


def test_a_verdict_that_is_stored_alone_says_where_it_is_not_a_number():
    verdict = Verdict(VerdictStatus.SCORED, "j", (0.0, -30.0), evidence={"deep": [{"share": float("nan")}]})
    with pytest.raises(NumericalError, match=r"verdict of j\.evidence\.deep\[0\]\.share is NaN"):
        verdict_fields(verdict)
