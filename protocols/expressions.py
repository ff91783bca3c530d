"""Small arithmetic for protocol files: ``tanh(margin / 2)``, ``rounds - 1``, ``agreement(answer.choice) > 0.5``.

The grammar is a handful of Python's: numbers, text, true/false/none, names, ``NODE.field``, ``+ - * / // % **``,
comparisons, ``in (a, b)``, ``and or not``, ``a if condition else b`` and calls of the functions in `FUNCTIONS` and
`GROUPS`. Whatever else Python can say is refused when the file is read. Powers and products are bounded, so no
expression can take long or grow large. Texts can be compared for being equal, or looked for in other texts, and nothing
else.

``none`` is what a node that has not run gives: it equals only itself, no number is above or below it, and arithmetic
with it gives none again. So does whatever has no value for what was said: a division by zero, the log of 0, a number
out of range, a sum of texts. ``NODE.field`` of several nodes is a tuple, for the functions of `GROUPS`; there ``none``
is an abstention, which counts among all entries but is no value.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from arena.protocols.errors import ConfigError, LanguageError, suggest
from arena.protocols.functions import FUNCTIONS, GROUPS, as_number, read_number, shorten

__all__ = ["FUNCTIONS", "GROUPS", "Expression"]

_Names: TypeAlias = Mapping[str, Any]
_Value: TypeAlias = Callable[[_Names], Any]

_MAX_LENGTH = 500
_MAX_DEPTH = 40
_MAX_BITS = 1024
_MAX_ITEMS = 64
_LITERALS = {"true": True, "false": False, "none": None}
_EVERY = {*FUNCTIONS, *GROUPS, "number"}

_FAULTS = (ArithmeticError, TypeError, ValueError)
"""What operators and functions raise where they have no value."""

_COMPARISONS: Mapping[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: lambda a, b: _ordered(a, b) and a < b,
    ast.LtE: lambda a, b: _ordered(a, b) and a <= b,
    ast.Gt: lambda a, b: _ordered(a, b) and a > b,
    ast.GtE: lambda a, b: _ordered(a, b) and a >= b,
    ast.In: lambda a, b: _holds(b, a),
    ast.NotIn: lambda a, b: not _holds(b, a),
}


class Expression:
    """A compiled expression; call it with its names, or try it on some with `trial`.

    Args:
        source: text of the expression, or a plain number or boolean.
        constants: names whose values are fixed now, such as a protocol's params.
        scope: name of the nested scope whose nodes the source means: ``draft.choice`` is ``SCOPE.draft.choice`` then.
            Constants may be dotted too, with the scope before them.
        keys: other names for what the source means, the scope included: ``work.step.ok`` -> ``work_2.step.ok``.

    Raises:
        LanguageError: not an expression of this grammar; its ``offset`` says where.
    """

    __slots__ = ("_constants", "_evaluate", "_keys", "_scope", "literals", "names", "singles", "source", "uses")

    def __init__(
        self,
        source: str | float,
        constants: Mapping[str, Any] | None = None,
        scope: str = "",
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self.source = str(source).lower() if isinstance(source, bool) else str(source)
        self._constants = dict(constants or {})
        self._scope = scope
        self._keys = dict(keys or {})
        compiler = _Compiler(self.source, self._constants, scope, self._keys)
        self._evaluate = compiler.compile()
        self.names: frozenset[str] = frozenset(compiler.names)
        """Names that a call must bring; ``NODE.field`` is one name."""
        self.singles: frozenset[str] = frozenset(compiler.singles)
        """Those of ``names`` that stand where a tuple, the values of several nodes, makes no sense."""
        self.uses: frozenset[str] = frozenset(compiler.names | compiler.used)
        """All names in the source, the constants included."""
        self.literals: frozenset[str] = frozenset(compiler.literals)
        """Texts that stand in the source, or in constants that it names."""

    def __call__(self, names: _Names) -> Any:
        """The value; None where it has none (division by zero, log of 0, arithmetic with none or with texts, ...).

        Raises:
            ConfigError: a name is missing.
        """
        try:
            return self._evaluate(names)
        except KeyError as error:
            raise ConfigError(f"'{self.source}' needs {error.args[0]!r}.{suggest(str(error.args[0]), names)}") from None

    def trial(self, names: _Names) -> Any:
        """The value, as a call gives it, but what makes a part of it have none is told.

        Raises:
            ConfigError: a name is missing, or an operator or function has no value; its cause is a TypeError where
                that is of another kind than it takes.
        """
        evaluate = _Compiler(self.source, self._constants, self._scope, self._keys, strict=True).compile()
        try:
            return evaluate(names)
        except KeyError as error:
            raise ConfigError(f"'{self.source}' needs {error.args[0]!r}.{suggest(str(error.args[0]), names)}") from None
        except _FAULTS as error:
            raise ConfigError(f"'{self.source}' has no value: {error}") from error

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    def __reduce__(self) -> tuple[type[Expression], tuple[str, dict[str, Any], str, dict[str, str]]]:
        return type(self), (self.source, self._constants, self._scope, self._keys)


class _Compiler:
    """Turns a syntax tree into nested closures; whatever is not listed here is refused. ``strict`` ones raise where an
    operator or function has no value, others give None (comparisons: False)."""

    def __init__(
        self,
        source: str,
        constants: Mapping[str, Any],
        scope: str,
        keys: Mapping[str, str],
        *,
        strict: bool = False,
    ) -> None:
        self.source = source
        self.strict = strict
        self.constants = constants
        self.prefix = f"{scope}." if scope else ""
        self.keys = keys
        self.names: set[str] = set()
        self.singles: set[str] = set()
        self.used: set[str] = set()
        self.literals: set[str] = set()
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
            single = re.search(r"(?<![=!<>])=(?!=)", text)
            what = "write == to compare" if single else error.msg
            offset = single.start() if single else offset
            raise LanguageError(f"'{shorten(self.source)}' is not an expression: {what}", self.lead + offset) from None
        except (RecursionError, MemoryError, ValueError) as error:
            raise LanguageError(f"'{shorten(self.source)}' is not an expression: {error or 'too deep'}") from None
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
                f"'{shorten(what)}' cannot stand in an expression: use numbers, names, NODE.field, + - * / // % **, "
                f"comparisons, in (a, b), and/or/not, if-else and {', '.join(sorted(_EVERY))}",
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
        return self.fixed(value)

    def fixed(self, value: Any) -> _Value:
        if isinstance(value, str):
            self.literals.add(value)
        return lambda names: value

    def visit_Name(self, node: ast.Name) -> _Value:  # noqa: N802
        name = node.id
        if name in _LITERALS:
            return self.fixed(_LITERALS[name])
        if name in self.constants:
            self.used.add(name)
            return self.fixed(self.constants[name])
        self.singles.add(name)
        return self.named(name)

    def visit_Attribute(self, node: ast.Attribute) -> _Value:  # noqa: N802
        name = self.dotted(node)
        if name in self.constants:
            return self.fixed(self.constants[name])
        self.singles.add(name)
        return self.named(name)

    def dotted(self, node: ast.Attribute) -> str:
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise self.refuse(node, "a dot stands between names only: NODE.field")
        if inner.id in _LITERALS or inner.id in self.constants:
            raise self.refuse(node, f"'{inner.id}' has no '.{parts[-1]}': a dot reads what a node gave, as NODE.field")
        name = self.prefix + ".".join([inner.id, *reversed(parts)])
        return self.keys.get(name, name)

    def named(self, name: str) -> _Value:
        self.names.add(name)
        return lambda names: names[name]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> _Value:  # noqa: N802
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda names: not value(names)
        if isinstance(node.op, ast.USub):
            return self.operation(operator.neg, [value])
        if isinstance(node.op, ast.UAdd):
            return self.operation(operator.pos, [value])
        raise self.refuse(node, "'~' is not an operator of expressions")

    def visit_BinOp(self, node: ast.BinOp) -> _Value:  # noqa: N802
        operands = [self.visit(node.left), self.visit(node.right)]
        apply = _ARITHMETIC.get(type(node.op))
        if apply is None:
            raise self.refuse(node, "use only + - * / // % ** between numbers")
        return self.operation(apply, operands)

    def operation(self, function: Callable[..., Any], operands: Sequence[_Value]) -> _Value:
        """A function of numbers; with none among them it is none."""

        def strict(names: _Names) -> Any:
            given = [operand(names) for operand in operands]
            return None if None in given else _in_range(function(*map(as_number, given)), given)

        def known(names: _Names) -> Any:
            given = [operand(names) for operand in operands]
            if None in given:
                return None
            try:
                return _in_range(function(*map(as_number, given)), given)
            except _FAULTS:
                return None

        return strict if self.strict else known

    def visit_Compare(self, node: ast.Compare) -> _Value:  # noqa: N802
        values, operators = [self.visit(node.left)], []
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _COMPARISONS:
                raise self.refuse(node, "use only == != < <= > >= in to compare")
            operators.append(_COMPARISONS[type(op)] if self.strict else _KNOWN[type(op)])
            values.append(self.items(comparator) if isinstance(op, ast.In | ast.NotIn) else self.visit(comparator))
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
        if name not in _EVERY:
            raise self.refuse(node, f"'{shorten(name)}' is not a function of expressions.{suggest(name, _EVERY)}")
        given = -1 if node.keywords else len(node.args)
        if name == "number" and given == 1:
            read = self.visit(node.args[0])
            return lambda names: read_number(read(names))
        if name in GROUPS and given == GROUPS[name][1]:
            return self.group_call(GROUPS[name][0], node.args)
        function, least, most = FUNCTIONS.get(name, (None, 1, 1))
        if function is not None and least <= given <= most:
            return self.operation(function, [self.visit(argument) for argument in node.args])
        raise self.refuse(node, f"'{name}' takes {_takes(name)}")

    def group_call(self, function: Callable[..., Any], given: Sequence[ast.expr]) -> _Value:
        values, others = self.items(given[0]), [self.visit(argument) for argument in given[1:]]

        def strict(names: _Names) -> Any:
            items, more = values(names), [other(names) for other in others]
            return _in_range(function(_tuple(items), *more), items)

        def known(names: _Names) -> Any:
            items, more = values(names), [other(names) for other in others]
            try:
                return _in_range(function(_tuple(items), *more), items)
            except _FAULTS:
                return None

        return strict if self.strict else known

    def items(self, node: ast.expr) -> _Value:
        """A value where a list of values may stand."""
        if isinstance(node, ast.Attribute):
            name = self.dotted(node)
            return self.fixed(self.constants[name]) if name in self.constants else self.named(name)
        if not isinstance(node, ast.Tuple | ast.List):
            return self.visit(node)
        if len(node.elts) > _MAX_ITEMS:
            raise self.refuse(node, f"a list of {len(node.elts)} values is too long (at most {_MAX_ITEMS})")
        items = [self.visit(item) for item in node.elts]
        return lambda names: tuple([item(names) for item in items])


def _takes(name: str) -> str:
    """How many values a function takes, in words."""
    if name not in FUNCTIONS:
        least = most = GROUPS[name][1] if name in GROUPS else 1
    else:
        _, least, most = FUNCTIONS[name]
    count = str(least) if least == most else f"{least} to {most}"
    also = ", or those of several nodes" if name in FUNCTIONS and name in GROUPS else ""
    return f"{count} value{'s' if most > 1 else ''}{also}"


def _in_range(value: Any, given: Sequence[Any]) -> Any:
    """The value.

    Raises:
        OverflowError: it is no number, or infinite although no number that it was made of is.
    """
    if isinstance(value, float) and not math.isfinite(value) and (math.isnan(value) or all(map(_finite, given))):
        raise OverflowError("the result is out of range")
    return value


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _multiply(left: Any, right: Any) -> Any:
    product = left * right
    if isinstance(product, int) and product.bit_length() > _MAX_BITS:
        raise OverflowError("the product is too large")
    return product


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int) and exponent >= 0
    if whole and base.bit_length() * exponent <= _MAX_BITS:
        return base**exponent
    return math.pow(base, exponent)


_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Pow: _power,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _known(apply: Callable[[Any, Any], bool], otherwise: bool) -> Callable[[Any, Any], bool]:
    """A comparison that is not made between what cannot be compared."""

    def compare(left: Any, right: Any) -> bool:
        try:
            return apply(left, right)
        except TypeError:
            return otherwise

    return compare


_KNOWN = {
    kind: apply if kind in (ast.Eq, ast.NotEq) else _known(apply, kind is ast.NotIn)
    for kind, apply in _COMPARISONS.items()
}


def _ordered(left: Any, right: Any) -> bool:
    """Whether two values have an order: numbers have, none has none, and the rest is a mistake."""
    if left is None or right is None:
        return False
    if left.__class__ is not int or right.__class__ is not int:
        as_number(left), as_number(right)
    return True


def _holds(values: Any, value: Any) -> bool:
    """Whether a tuple has an item, or a text a passage."""
    if isinstance(values, str):
        if value is None:
            return False
        if not isinstance(value, str):
            raise TypeError(f"only a text can be in a text, not {shorten(repr(value))}")
        return value in values
    return value in _tuple(values)


def _tuple(values: Any) -> Sequence[Any]:
    """The values of several nodes, or a list that a turn gave; none has no values."""
    if isinstance(values, tuple | list):
        return values
    if values is None:
        return ()
    raise TypeError(f"{shorten(repr(values))} is one value, where those of several nodes or a list are needed")
