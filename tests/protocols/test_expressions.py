import contextlib
import math
import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols import ConfigError, Expression
from arena.protocols.errors import LanguageError


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("tanh(margin / 2)", math.tanh(0.75)),
        ("1 + 2 * 3 ** 2 // 4 % 3 - -1", 1 + 2 * 3**2 // 4 % 3 + 1),
        ("clip(margin, 0, 1)", 1),
        ("min(margin, 1, -2) + max(1, 2)", 0),
        ("round(margin / 7, 2)", 0.21),
        ("1 if won else -1", 1),
        ("1 < margin <= 1.5 and not won < 1", True),
        ("true and false or name == 'x'", True),
        ("2 ** 0.5", math.sqrt(2)),
        ("exp(log(margin)) + sqrt(4) + abs(-1)", 4.5),
        (2.5, 2.5),
        (True, True),
    ],
)
def test_values(source: str | float, value: float) -> None:
    assert Expression(source)({"margin": 1.5, "won": 1, "name": "x"}) == pytest.approx(value)


def test_names_and_constants() -> None:
    expression = Expression("rounds - 1 + visits", {"rounds": 3, "unused": 1})
    assert expression.names == {"visits"}
    assert expression.uses == {"visits", "rounds"}
    assert expression({"visits": 5}) == 7
    assert pickle.loads(pickle.dumps(expression))({"visits": 5}) == 7
    with pytest.raises(ConfigError, match="needs 'visits'"):
        expression({})


@pytest.mark.parametrize(
    ("source", "what", "offset"),
    [
        ("1 + 'a'.real", "a dot stands between names", 4),
        ("é + f(1).b", "a dot stands between names", 4),
        ("true.real", "'true' has no '.real'", 0),
        ("(1, 2)", "cannot stand", 0),
        ("a == (1, 2)", "cannot stand", 5),
        ("1 in ((1, 2), 3)", "cannot stand", 6),
        ("1 in (" + "1, " * 65 + ")", "too long", 5),
        ("a is none", "use only ==", 0),
        ("agreement(a, b)", "takes 1 value", 0),
        ("count(a)", "takes 2 values", 0),
        ("number()", "takes 1 value", 0),
        ("agrement(a.b)", "Did you mean 'agreement'", 0),
        ("  __import__('os')", "is not a function", 2),
        ("tan(1)", "Did you mean 'tanh'", 0),
        ("[x for x in y]", "cannot stand", 0),
        ("(lambda: 1)()", "is not a function", 0),
        ("a[0]", "cannot stand", 0),
        ("{1: 2}", "cannot stand", 0),
        ("f'{a}'", "cannot stand", 0),
        ("a if b", "is not an expression", None),
        ("a @ b", "use only", 0),
        ("1 << 99", "use only", 0),
        ("~a", "not an operator", 0),
        ("(a := 1)", "cannot stand", 1),
        ("min()", "takes 2 to 20 values, or those of several nodes", 0),
        ("round(1, ndigits=2)", "takes 1 to 2", 0),
        ("tanh(*a)", "cannot stand", 5),
        ("None", "neither a number nor a text", 0),
        ("b'x'", "neither a number nor a text", 0),
        ("", "empty", 0),
        ("1;2", "is not an expression", None),
        ("1\x00", "is not an expression", None),
        ("(" * 400, "is not an expression", None),
        ("-" * 300 + "1", "nested deeper", None),
        ("1" * 501, "too long", 0),
        ("0x" + "f" * 400, "too large", 0),
    ],
)
def test_everything_else_is_refused_with_its_place(source: str, what: str, offset: int | None) -> None:
    with pytest.raises(LanguageError, match=what) as caught:
        Expression(source)
    assert offset is None or caught.value.offset == offset


@pytest.mark.parametrize(
    "source",
    [
        "9 ** 9 ** 9 ** 9",
        "'a' * 1000000000",
        "'a' + 'b'",
        "'%99999999d' % 1",
        "exp(1000)",
        "log(0)",
        "1 / 0",
        "(-1) ** 0.5",
        "max('a', 1)",
        "'a' < 1",
        "-'a'",
        *["*".join(["10"] * 160) + f" ** {power}" for power in (99, 100000)],
    ],
)
def test_values_that_do_not_exist_are_refused_quickly(source: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ConfigError):
        Expression(source).trial({})
    with contextlib.suppress(LanguageError):
        assert not Expression(source)({})
    assert time.perf_counter() - began < 1


SAID = {
    "draft.choice": "yes",
    "draft.score": 3,
    "draft.text": "I am DONE.",
    "answer.choice": ("yes", "no", "yes", None),
    "answer.score": (1, 4, None, 1),
    "answer.tags": (["x"], ["x"], None, {"y": 1}),
    "plan.steps": ["a", "b"],
    "late.choice": None,
    "late.score": None,
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("draft.choice == 'yes' and draft.score + 1 == 4", True),
        ("late.choice == none", True),
        ("late.choice != 'yes' and none == none", True),
        ("late.score < 3 or late.score >= 3 or 3 > late.score", False),
        ("0 < late.score < 9", False),
        ("draft.choice in ('no', 'yes')", True),
        ("late.choice in ['no', none]", True),
        ("draft.choice not in ('no', 'never')", True),
        ("'yes' in answer.choice and 'maybe' not in answer.choice", True),
        ("none in answer.choice", True),
        ("'a' in plan.steps and 'a' in late.choice", False),
        ("'DONE' in draft.text", True),
        ("late.choice in draft.text", False),
        ("agreement(answer.choice)", 0.5),
        ("agreement((draft.choice, late.choice, 'yes'))", 2 / 3),
        ("agreement(late.choice)", 0),
        ("agreement((none, none))", 0),
        ("agreement(answer.tags)", 0.5),
        ("distinct(answer.choice)", 2),
        ("distinct(answer.tags)", 2),
        ("count(answer.choice, 'yes')", 2),
        ("count(answer.choice, none)", 1),
        ("len(answer.choice) + len(plan.steps) + len(late.choice)", 6),
        ("sum(answer.score)", 6),
        ("mean(answer.score)", 2),
        ("median((5, 1, none, 3))", 3),
        ("median((4, 1, 3, 2))", 2.5),
        ("median((none,))", None),
        ("max(answer.score) - min(answer.score)", 3),
        ("max(draft.score, 5)", 5),
        ("mean(late.choice)", None),
        ("min([none])", None),
        ("any((draft.score > 2, none))", True),
        ("all(answer.choice)", False),
        ("number(' -2.5 ') + number('1e2') + number(.5) + number(true)", 99),
        ("number('1,000')", None),
        ("number('1e999')", None),
        ("number('nan')", None),
        ("number(late.choice)", None),
        ("number(draft.text) == none", True),
    ],
)
def test_what_was_said_can_be_asked_about(source: str, value: object) -> None:
    assert Expression(source)(SAID) == value


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("draft.choice < 'z'", "'yes' is not a number"),
        ("len(draft.text)", "is one value"),
        ("1 in draft.score", "3 is one value"),
        ("1 in draft.text", "only a text can be in a text"),
        ("sum(answer.choice)", "'yes' is not a number"),
        ("draft.text + draft.text", "is not a number"),
        ("draft.score / 0", "division by zero"),
        ("log(draft.score - 3)", "math domain error"),
        ("1e300 * draft.score * 1e300", "out of range"),
        ("gone.choice", "needs 'gone.choice'"),
    ],
)
def test_a_trial_says_why_there_is_no_value(source: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Expression(source).trial(SAID)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("late.score + 1", None),
        ("-late.score", None),
        ("tanh(late.score)", None),
        ("max(late.score, 1)", None),
        ("clip(late.score, 0, 1)", None),
        ("late.score + 1 > 0", False),
        ("not late.score + 1 > 0", True),
        ("late.score * 2 == none", True),
        ("draft.score / 0", None),
        ("draft.score // 0", None),
        ("draft.score % 0", None),
        ("log(0 * draft.score)", None),
        ("sqrt(-draft.score)", None),
        ("exp(800 * draft.score)", None),
        ("10.0 ** (400 * draft.score)", None),
        ("1e300 * draft.score * 1e300", None),
        ("round(0.5, draft.score / 2)", None),
        ("draft.text + draft.text", None),
        ("sum(answer.choice)", None),
        ("draft.choice < 'z'", False),
        ("1 in draft.text", False),
        ("1 not in draft.text", True),
        ("1 in draft.score", False),
        ("1 if draft.score / 0 else 2", 2),
        ("draft.score / 0 or 7 > 6", True),
    ],
)
def test_what_has_no_value_is_none(source: str, value: object) -> None:
    assert Expression(source)(SAID) == value


def test_what_was_infinite_before_may_stay_so() -> None:
    assert Expression("tanh(margin / 2)")({"margin": math.inf}) == 1.0
    assert Expression("margin - margin")({"margin": math.inf}) is None


def test_rounding_takes_no_time_whatever_is_asked_for() -> None:
    assert Expression("round(12, -n)")({"n": 10**9}) == 0
    assert Expression("round(1.5, n)")({"n": 10**9}) == 1.5


def test_names_of_what_was_said_are_dotted() -> None:
    expression = Expression("sub.draft.choice == 'yes' and n > 1 and agreement(answer.choice) > margin", {"n": 2})
    assert expression.names == {"sub.draft.choice", "answer.choice", "margin"}
    assert expression.uses == expression.names | {"n"}
    assert expression.singles == {"sub.draft.choice", "margin"}
    assert Expression("'a' in a.b or count(c.d, e.f) == 1").singles == {"e.f"}


def test_a_scope_stands_before_the_names_of_nodes() -> None:
    expression = Expression("draft.choice == word and round < 3", {"word": "yes"}, scope="sub.inner")
    assert expression.names == {"sub.inner.draft.choice", "round"}
    copy = pickle.loads(pickle.dumps(expression))
    assert copy.names == expression.names
    assert copy({"sub.inner.draft.choice": "yes", "round": 1})


def test_a_key_may_stand_for_what_the_source_names() -> None:
    expression = Expression("step.ok and round < 3", scope="work", keys={"work.step.ok": "work_2.step.ok"})
    assert expression.names == {"work_2.step.ok", "round"}
    assert pickle.loads(pickle.dumps(expression))({"work_2.step.ok": True, "round": 1})


def test_what_was_said_may_be_known_beforehand() -> None:
    expression = Expression(
        "draft.choice == none and draft.visits == 0", {"sub.draft.choice": None, "sub.draft.visits": 0}, "sub"
    )
    assert expression.names == set()
    assert expression({})


def test_literals_are_the_texts_that_stand_in_the_source() -> None:
    expression = Expression(
        "'win' if a.b == 'yes' or a.b in ('x', n) else word", {"word": "loss", "n": 1, "other": "q"}
    )
    assert expression.literals == {"win", "yes", "x", "loss"}


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab12.()+-*/%<>=' ,notifelrud_[]{}:\\\n", max_size=30))
def test_any_text_is_an_expression_or_a_config_error(source: str) -> None:
    with contextlib.suppress(ConfigError):
        Expression(source)({"a": 1, "b": 2.0})


NUMBERS = st.recursive(
    st.one_of(st.integers(-9, 9).map(str), st.just("x"), st.floats(-4, 4).map(lambda value: f"{value:.3f}")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        st.tuples(inner, st.sampled_from(["<", "==", ">="]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(NUMBERS)
def test_arithmetic_is_that_of_python(source: str) -> None:
    try:
        expected = eval(source, {"x": 1.25})
    except ArithmeticError:
        with pytest.raises(ConfigError):
            Expression(source).trial({"x": 1.25})
    else:
        assert Expression(source)({"x": 1.25}) == expected
