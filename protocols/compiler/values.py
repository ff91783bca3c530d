"""Expressions of a file: what their names mean, and a trial on ordinary values."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from arena.protocols.compiler.given import UNKNOWN, Given, gives, unknown_field
from arena.protocols.compiler.references import Ref, find_key
from arena.protocols.compiler.scope import Move, Unit, key_of
from arena.protocols.documents import KeyPath
from arena.protocols.errors import ConfigError, LanguageError, suggest
from arena.protocols.expressions import Expression

__all__ = ["carried", "check_order", "constant", "expression", "read_computes", "try_number", "whole"]


def constant(unit: Unit, path: KeyPath, source: float | str, *, text: bool = False) -> Any:
    """The value of an expression over params; None, with a fault, if it has none. ``text``: it may be meant as one."""
    try:
        compiled = Expression(source, unit.params)
    except LanguageError as error:
        unit.add(path, error.what, offset=error.offset)
        return None
    unit.used_params |= compiled.uses & unit.params.keys()
    if compiled.names:
        for name in sorted(compiled.names):
            way_out = f" A text stands in quotes: \"'{name}'\"" if text and compiled.source.strip() == name else ""
            _unknown_name(unit, path, compiled.source, name, [*unit.params], way_out)
        return None
    try:
        return compiled.trial({})
    except ConfigError as error:
        unit.add(path, str(error))
        return None


def whole(unit: Unit, path: KeyPath, source: int | str | None, low: int, high: int) -> int | None:
    """A whole number in [low, high], written plainly or as expression over params."""
    value = None if source is None else constant(unit, path, source)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != value // 1:
        unit.add(path, f"'{source}' is {value!r}, not a whole number")
    elif not low <= value <= high:
        unit.add(path, f"'{source}' is {value:g}; it must be from {low} to {high:,}")
    else:
        return int(value)
    return None


def expression(
    unit: Unit,
    path: KeyPath,
    source: float | str | bool,
    plain: Mapping[str, Any],
    *,
    nodes: bool = True,
    member: int = 0,
) -> Expression | None:
    """Compile an expression over params, ``plain`` names and, if ``nodes``, fields of nodes.

    Args:
        unit: whose file it stands in.
        path: where.
        source: as written.
        plain: name -> a value to try it on.
        nodes: ``NODE.field`` may be named.
        member: a number from 1: where one value is wanted, a counted node means this one of its nodes.

    Returns:
        The expression, with absolute keys; None, with a fault, if it cannot be.
    """
    fixed: dict[str, Any] = {name: value for name, value in unit.params.items() if name not in plain}
    try:
        first = Expression(source, fixed, unit.key)
    except LanguageError as error:
        unit.add(path, error.what, offset=error.offset)
        return None
    unit.used_params |= first.uses & fixed.keys()
    keys: dict[str, str] = {}
    absent: dict[str, Any] = {}
    good = True
    for name in sorted(first.names):
        if name in plain:
            if name in unit.params:
                what = f"'{name}' means both a param and a name of this place: rename the param"
                good = _blame(unit, path, first.source, name, what)
            continue
        if "." not in name or not nodes:
            _unknown_name(
                unit, path, first.source, _written(unit, name), (*plain, *unit.params, *_node_keys(unit, nodes))
            )
            good = False
            continue
        found = _key(unit, path, first.source, name, single=name in first.singles, member=member)
        if found is None:
            good = False
        elif isinstance(found, str):
            keys |= {name: found} if found != name else {}
        else:
            absent |= {name: found[0]}
    if not good:
        return None
    if not keys and not absent:
        return first
    return Expression(source, {**fixed, **absent}, unit.key, keys)


def _node_keys(unit: Unit, nodes: bool) -> list[str]:
    return [f"{name}.{key}" for name, move in unit.keys.items() for key in gives(Ref([move]))][:40] if nodes else []


def _written(unit: Unit, name: str) -> str:
    return name.removeprefix(f"{unit.key}.") if unit.key and "." in name else name


def _key(unit: Unit, path: KeyPath, source: str, name: str, *, single: bool, member: int) -> str | tuple[Any] | None:
    """The key of ``NODE.field``; in a tuple, the value of one that the params rule out; None, with a fault, for no
    key."""
    shown = _written(unit, name)
    parts = shown.split(".")
    found = find_key(unit, parts)
    if found is None:
        known = [*unit.keys, *unit.params]
        _blame(unit, path, source, shown, f"'{parts[0]}' is not a node of this protocol.{suggest(parts[0], known)}")
        return None
    ref, part = found
    if ref.move.kind is None and part == "visits" and not ref.many and len(parts) == 2:
        return name
    if ref.move.empty:
        return ((),) if ref.many else (0 if part in ("visits", "words") else None,)
    node = ".".join(parts[: parts.index(part, 1)]) if part else shown
    if what := unknown_field(ref, part, node):
        _blame(unit, path, source, shown, what)
        return None
    if parts[-1] != part:
        _blame(unit, path, source, shown, f"'{shown}' has no parts: a field of a node is one value in expressions")
        return None
    if not ref.names:
        return ((),) if ref.many else (0 if part in ("visits", "words") else None,)
    if ref.many and single and member and member <= len(ref.names):
        return f"{key_of(ref.names[member - 1])}.{part}"
    if ref.many and single:
        what = (
            f"'{shown}' is the values of several nodes: write agreement({shown}), count({shown}, ...), any(...), "
            "all(...), mean(...), or name one of them"
        )
        _blame(unit, path, source, shown, what)
        return None
    return name


def _unknown_name(unit: Unit, path: KeyPath, source: str, name: str, known: Sequence[str], way_out: str = "") -> None:
    _blame(unit, path, source, name, f"'{name}' is not a name here.{suggest(name, known)}{way_out}")


def _blame(unit: Unit, path: KeyPath, source: str, name: str, what: str) -> bool:
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", source)
    unit.add(path, what, offset=found.start() if found else 0)
    return False


def check_order(unit: Unit, path: KeyPath, compiled: Expression, names: Sequence[str]) -> None:
    """A field of a node that can only run after all of ``names`` is always none."""
    work = unit.work
    for key in sorted(compiled.names):
        found = find_key(work.units[0], key.split(".")) if "." in key else None
        if found and found[0].names and names and not work.before(found[0].names, names):
            _blame(
                unit,
                path,
                compiled.source,
                _written(unit, key),
                f"'{_written(unit, key)}' is always none here: its node can only run later",
            )


# -- trying out


def try_number(
    unit: Unit, path: KeyPath, compiled: Expression | None, plain: Mapping[str, Any], *, texts: bool = False
) -> Any:
    """Evaluate on ordinary values, so that a text in place of a number is found when the file is read.

    Args:
        unit: whose file it stands in.
        path: where.
        compiled: the expression; None has been reported.
        plain: values of plain names.
        texts: a text, or none, is a result too.

    Returns:
        The value; UNKNOWN where it cannot be told.
    """
    if compiled is None:
        return UNKNOWN
    _check_kinds(unit, path, compiled.source, plain)
    names = {name: plain[name] if name in plain else _sample(unit, name) for name in compiled.names}
    if any(value is UNKNOWN for value in names.values()):
        return UNKNOWN
    try:
        value = _tried(compiled, names)
    except ConfigError as error:
        unit.add(path, str(error))
        return UNKNOWN
    if texts and (value is None or isinstance(value, str)):
        return value
    if value is None and compiled.names:
        return UNKNOWN  # of other values it may be a number
    if not isinstance(value, int | float) or not math.isfinite(value):
        unit.add(path, f"'{compiled.source}' is {'none' if value is None else repr(value)}, not a number")
        return UNKNOWN
    return value


def _check_kinds(unit: Unit, path: KeyPath, source: str, plain: Mapping[str, Any]) -> None:
    """A text is compared with no number: they are never equal."""
    for node in ast.walk(ast.parse(source.strip().replace("\n", " "), mode="eval")):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            kinds = {_kind(unit, side, plain): ast.unparse(side) for side in (left, right)}
            if isinstance(op, ast.Eq | ast.NotEq) and kinds.keys() == {"text", "number"}:
                text, number = kinds["text"], kinds["number"]
                base = text.removesuffix(".choice")
                place = f" (the place of a choice, from 0, is {base}.index)" if base != text else ""
                shown = text.removeprefix("'").removesuffix("'")
                unit.add(path, f"'{shown}' is a text and '{number}' a number, which are never equal{place}")


def _kind(unit: Unit, node: ast.expr, plain: Mapping[str, Any]) -> str:
    """What a side of a comparison is: ``text``, ``number`` or, where it cannot be told, neither."""
    value: Any = UNKNOWN
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name | ast.Attribute):
        name = ast.unparse(node)
        found = find_key(unit, name.split(".")) if "." in name else None
        if found and not found[0].many and not found[0].move.empty:
            value = gives(found[0]).get(found[1], Given()).sample
        elif name in plain or name in unit.params:
            value = plain.get(name, unit.params.get(name, UNKNOWN))
    return "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else ""


def _tried(compiled: Expression, names: Mapping[str, Any]) -> Any:
    """The value on ordinary values, or on others of the same kinds: ``1 / (draft.words - 2)`` need not always have one.

    Raises:
        ConfigError: something is of another kind than is needed, or there never is a value.
    """
    fault: ConfigError | None = None
    for vary in _VARIED:
        try:
            return compiled.trial({name: vary(value) for name, value in names.items()})
        except ConfigError as error:
            fault = fault or error
            if isinstance(error.__cause__, TypeError) or not names:
                break
    assert fault is not None
    raise fault


def _scaled(factor: float, more: float) -> Callable[[Any], Any]:
    def vary(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(vary, value))
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return type(value)(factor * value + more)

    return vary


_VARIED = (_scaled(1, 0), _scaled(0.5, 0), _scaled(2, 1), _scaled(50, 7))


def _sample(unit: Unit, key: str) -> Any:
    """A value for an absolute key."""
    found = find_key(unit.chain()[-1], key.split("."))
    if found is None:
        return UNKNOWN
    ref, part = found
    if ref.move.kind is None:
        return 1
    given = gives(ref).get(part)
    if given is None or given.sample is UNKNOWN:
        return UNKNOWN
    return (given.sample,) * len(ref.names) if ref.many else given.sample


# -- computations


def read_computes(units: Sequence[Unit]) -> None:
    """Find out what all computations give, before anything that names them is checked."""
    moves = [move for unit in units for move in unit.moves.values() if move.kind == "compute" and move.alive]
    for move in moves:
        for name, source in (move.file.compute or {}).items():
            carries = frozenset(carried(str(source), move.unit))
            move.unit.computes[move.name, name] = Given(UNKNOWN, carries=carries)
    for _ in range(2):  # computations that name others
        for move in moves:
            _try_computes(move)


def _try_computes(move: Move) -> None:
    unit = move.unit
    for name, source in (move.file.compute or {}).items():
        if unit.fields.keys() & carried(str(source), unit, deep=True):
            continue  # a task field may be anything
        try:
            compiled = Expression(source, unit.params, unit.key)
            names = {key: _sample(unit, key) for key in compiled.names}
            sample = UNKNOWN if any(value is UNKNOWN for value in names.values()) else compiled.trial(names)
        except ConfigError:
            continue
        given = unit.computes[move.name, name]
        unit.computes[move.name, name] = Given(sample, carries=given.carries)


def carried(source: str, unit: Unit, *, deep: bool = False) -> set[str]:
    """Names to whose value an expression may be equal, or from which it may be told by arithmetic: not those that it
    only compares, counts or decides by. With ``deep``, all names."""
    try:
        tree = ast.parse(source.strip().replace("\n", " "), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    try:
        return set(_carried(tree.body, deep)) - unit.params.keys()
    except RecursionError:
        return set()


_COUNTING = ("agreement", "distinct", "count", "len", "any", "all")


def _carried(node: ast.AST, deep: bool) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
        return
    if isinstance(node, ast.Attribute):
        yield ast.unparse(node)
        return
    inside: list[ast.AST] = list(ast.iter_child_nodes(node))
    if not deep:
        if isinstance(node, ast.Compare | ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            return
        if isinstance(node, ast.IfExp):
            inside = [node.body, node.orelse]
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in _COUNTING:
                return
            inside = list(node.args)
    elif isinstance(node, ast.Call):
        inside = list(node.args)
    for child in inside:
        yield from _carried(child, deep)
