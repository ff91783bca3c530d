"""Small arithmetic for protocol files: ``tanh(margin / 2)``, ``rounds - 1``, ``round < 3 and not blind``.

The grammar is a handful of Python's: numbers, text, true/false, names, ``+ - * / // % **``, comparisons, ``and or
not``, ``a if condition else b`` and calls of the functions in `FUNCTIONS`. Whatever else Python can say is refused
when the file is read. Powers and products are bounded, so no expression can take long or grow large.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from arena.protocols.errors import ConfigError, LanguageError, suggest

__all__ = ["FUNCTIONS", "Expression"]

_Names: TypeAlias = Mapping[str, Any]
_Value: TypeAlias = Callable[[_Names], Any]

_MAX_LENGTH = 500
_MAX_DEPTH = 40
_MAX_BITS = 1024


def _clip(value: float, low: float, high: float) -> float:
    """``value`` moved into [low, high]."""
    return max(low, min(high, value))


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, int]] = {
    "tanh": (math.tanh, 1, 1),
    "exp": (math.exp, 1, 1),
    "log": (math.log, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "abs": (abs, 1, 1),
    "min": (min, 2, 20),
    "max": (max, 2, 20),
    "round": (round, 1, 2),
    "clip": (_clip, 3, 3),
}
"""Name -> function, least and largest count of arguments."""

_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Expression:
    """A compiled expression; call it with its names.

    Args:
        source: text of the expression, or a plain number or boolean.
        constants: names whose values are fixed now, such as a protocol's params.

    Raises:
        LanguageError: not an expression of this grammar; its ``offset`` says where.
    """

    __slots__ = ("_constants", "_evaluate", "names", "source", "uses")

    def __init__(self, source: str | float, constants: Mapping[str, Any] | None = None) -> None:
        self.source = str(source).lower() if isinstance(source, bool) else str(source)
        self._constants = dict(constants or {})
        compiler = _Compiler(self.source, self._constants)
        self._evaluate = compiler.compile()
        self.names: frozenset[str] = frozenset(compiler.names)
        """Names that a call must bring."""
        self.uses: frozenset[str] = frozenset(compiler.names | compiler.used)
        """All names in the source, the constants included."""

    def __call__(self, names: _Names) -> Any:
        """The value.

        Raises:
            ConfigError: a name is missing, or there is no such number (division by zero, log of 0, ...).
        """
        try:
            return self._evaluate(names)
        except KeyError as error:
            raise ConfigError(f"'{self.source}' needs {error.args[0]!r}.{suggest(str(error.args[0]), names)}") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ConfigError(f"'{self.source}' has no value: {error}") from None

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    def __reduce__(self) -> tuple[type[Expression], tuple[str, dict[str, Any]]]:
        return type(self), (self.source, self._constants)


class _Compiler:
    """Turns a syntax tree into nested closures; whatever is not listed here is refused."""

    def __init__(self, source: str, constants: Mapping[str, Any]) -> None:
        self.source = source
        self.constants = constants
        self.names: set[str] = set()
        self.used: set[str] = set()
        self.depth = 0

    def compile(self) -> _Value:
        if len(self.source) > _MAX_LENGTH:
            raise LanguageError(f"an expression of {len(self.source)} characters is too long (at most {_MAX_LENGTH})")
        if not self.source.strip():
            raise LanguageError("the expression is empty")
        self.lead = len(self.source) - len(self.source.lstrip())
        text = self.source.strip().replace("\n", " ")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            offset = min(max((error.offset or 1) - 1, 0), len(text))
            raise LanguageError(
                f"'{_shorten(self.source)}' is not an expression: {error.msg}", self.lead + offset
            ) from None
        except (RecursionError, MemoryError, ValueError) as error:
            raise LanguageError(f"'{_shorten(self.source)}' is not an expression: {error or 'too deep'}") from None
        return self.visit(tree.body)

    def refuse(self, node: ast.AST, what: str) -> LanguageError:
        column = getattr(node, "col_offset", 0)
        before = self.source.strip().encode("utf-8", "replace")[:column]
        return LanguageError(what, self.lead + len(before.decode("utf-8", "replace")))

    def visit(self, node: ast.expr) -> _Value:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.refuse(node, f"the expression is nested deeper than {_MAX_DEPTH} levels")
        method: Callable[[Any], _Value] | None = getattr(self, f"visit_{type(node).__name__}", None)
        if method is None:
            what = ast.get_source_segment(self.source.strip().replace("\n", " "), node) or type(node).__name__
            raise self.refuse(
                node,
                f"'{_shorten(what)}' cannot stand in an expression: use numbers, names, + - * / // % **, comparisons, "
                f"and/or/not, if-else and {', '.join(FUNCTIONS)}",
            )
        value = method(node)
        self.depth -= 1
        return value

    def visit_Constant(self, node: ast.Constant) -> _Value:  # noqa: N802
        value = node.value
        if not isinstance(value, int | float | str):
            raise self.refuse(node, f"{value!r} is neither a number nor a text")
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise self.refuse(node, "the number is too large")
        return lambda names: value

    def visit_Name(self, node: ast.Name) -> _Value:  # noqa: N802
        name = node.id
        literal = {"true": True, "false": False}.get(name, self.constants.get(name))
        if literal is not None:
            self.used.add(name) if name in self.constants else None
            return lambda names: literal
        self.names.add(name)
        return lambda names: names[name]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> _Value:  # noqa: N802
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda names: not value(names)
        if isinstance(node.op, ast.USub):
            return lambda names: -value(names)
        if isinstance(node.op, ast.UAdd):
            return lambda names: +value(names)
        raise self.refuse(node, "'~' is not an operator of expressions")

    def visit_BinOp(self, node: ast.BinOp) -> _Value:  # noqa: N802
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Mult):
            return lambda names: _multiply(left(names), right(names))
        if isinstance(node.op, ast.Pow):
            return lambda names: _power(left(names), right(names))
        apply = _ARITHMETIC.get(type(node.op))
        if apply is None:
            raise self.refuse(node, "use only + - * / // % ** between numbers")
        return lambda names: apply(_number(left(names)), _number(right(names)))

    def visit_Compare(self, node: ast.Compare) -> _Value:  # noqa: N802
        values = [self.visit(node.left), *map(self.visit, node.comparators)]
        operators = []
        for op in node.ops:
            if type(op) not in _COMPARISONS:
                raise self.refuse(node, "use only == != < <= > >= to compare")
            operators.append(_COMPARISONS[type(op)])
        if len(operators) == 1:
            (left, right), apply = values, operators[0]
            return lambda names: apply(left(names), right(names))

        def chain(names: _Names) -> bool:
            found = [value(names) for value in values]
            return all(apply(a, b) for apply, a, b in zip(operators, found, found[1:], strict=False))

        return chain

    def visit_BoolOp(self, node: ast.BoolOp) -> _Value:  # noqa: N802
        values = [self.visit(value) for value in node.values]
        if isinstance(node.op, ast.And):
            return lambda names: all(value(names) for value in values)
        return lambda names: any(value(names) for value in values)

    def visit_IfExp(self, node: ast.IfExp) -> _Value:  # noqa: N802
        test, body, other = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        return lambda names: body(names) if test(names) else other(names)

    def visit_Call(self, node: ast.Call) -> _Value:  # noqa: N802
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            raise self.refuse(node, f"'{_shorten(name)}' is not a function of expressions.{suggest(name, FUNCTIONS)}")
        function, least, most = FUNCTIONS[name]
        if node.keywords or not least <= len(node.args) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise self.refuse(node, f"'{name}' takes {count} values")
        arguments = [self.visit(argument) for argument in node.args]
        if len(arguments) == 1:
            only = arguments[0]
            return lambda names: function(_number(only(names)))
        return lambda names: function(*[_number(argument(names)) for argument in arguments])


def _number(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{_shorten(repr(value))} is not a number")


def _multiply(left: Any, right: Any) -> Any:
    product = _number(left) * _number(right)
    if isinstance(product, int) and product.bit_length() > _MAX_BITS:
        raise OverflowError("the product is too large")
    return product


def _power(base: Any, exponent: Any) -> Any:
    base, exponent = _number(base), _number(exponent)
    whole = isinstance(base, int) and isinstance(exponent, int) and exponent >= 0
    if whole and base.bit_length() * exponent <= _MAX_BITS:
        return base**exponent
    return math.pow(base, exponent)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
