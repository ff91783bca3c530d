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
        ("1 + margin.real", "cannot stand in an expression", 4),
        ("  __import__('os')", "is not a function", 2),
        ("tan(1)", "Did you mean 'tanh'", 0),
        ("[x for x in y]", "cannot stand", 0),
        ("(lambda: 1)()", "is not a function", 0),
        ("a[0]", "cannot stand", 0),
        ("{1: 2}", "cannot stand", 0),
        ("f'{a}'", "cannot stand", 0),
        ("a if b", "is not an expression", None),
        ("é + a.b", "cannot stand", 4),
        ("a in b", "use only ==", 0),
        ("a @ b", "use only", 0),
        ("1 << 99", "use only", 0),
        ("~a", "not an operator", 0),
        ("(a := 1)", "cannot stand", 1),
        ("min(1)", "takes 2 to 20", 0),
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
        Expression(source)({})
    assert time.perf_counter() - began < 1


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
            Expression(source)({"x": 1.25})
    else:
        assert Expression(source)({"x": 1.25}) == expected
