"""Prompt templates: a small, closed part of Jinja2.

A template may show names, choose with ``if``, repeat with ``for`` (two deep) and use the filters in `FILTERS`. It
cannot call, import, define or assign anything, so a protocol from a stranger can do no more than write text. What it
shows is data: ``{{`` inside a task's text stays text. A dot reads a mapping by key, never an attribute of an object:
``{{ draft.text }}``. Templates that only put texts together, which is what turns are cued with, run without Jinja.

What somebody said (`arena.protocols.inert.Said`) never begins a line of the result: it is moved right there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jinja2
from jinja2 import meta, nodes
from jinja2.filters import make_attrgetter
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from arena.protocols.errors import ConfigError, LanguageError, suggest
from arena.protocols.inert import Said, as_said, begins_line, join, settle
from arena.protocols.members import ITEM, find_members

__all__ = ["FILTERS", "Template", "shown_number"]

_Piece: TypeAlias = Callable[[Mapping[str, Any]], str]

MAX_SOURCE = 20_000
MAX_OUTPUT = 1_000_000
MAX_DEPTH = 60

FILTERS = (
    *("abs", "capitalize", "default", "first", "int", "join", "last", "length", "list", "lower", "reverse", "round"),
    *("sort", "title", "trim", "unique", "upper", "wordcount"),
)
"""Filters that a template may use."""

_KEEPING = ("capitalize", "lower", "title", "trim", "upper")
"""Filters that make a text of a text: of what was said, something that was said."""
_JOIN = "~"
"""The operator as a filter; users cannot write that name."""

_TESTS = ("defined", "undefined", "none", "even", "odd", "string", "number", "sequence", "mapping", "divisibleby")
_ALLOWED = (
    *(
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.Name,
        nodes.Const,
        nodes.Getitem,
        nodes.Getattr,
        nodes.Slice,
    ),
    *(
        nodes.Filter,
        nodes.Test,
        nodes.Compare,
        nodes.Operand,
        nodes.And,
        nodes.Or,
        nodes.Not,
        nodes.CondExpr,
        nodes.Concat,
    ),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos, nodes.If, nodes.For),
    *(nodes.List, nodes.Tuple, nodes.Keyword),
)


class _Environment(ImmutableSandboxedEnvironment):
    """No globals, no attributes of Python objects, no long numbers."""

    intercepted_binops = frozenset({"*", "+", "-", "/", "//", "%"})

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=False,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self.globals.clear()
        kept = {name: self.filters[name] for name in FILTERS}
        self.filters = kept | {name: _keeping(kept[name]) for name in _KEEPING} | {"join": _join, _JOIN: join}
        self.tests = {name: test for name, test in self.tests.items() if name in _TESTS or not name.isidentifier()}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if not isinstance(side, int | float) or abs(side) > 1e15:
                raise ConfigError(f"'{operator}' needs two numbers (use ~ to join text)")
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and not attribute.startswith("_"):
            return super().getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Mapping | Sequence):
            try:
                return obj[argument]
            except (LookupError, TypeError):
                pass
        return self.undefined(obj=obj, name=argument)


def _shown(value: Any) -> Any:
    """What is written in place of a value."""
    if type(value) is float:
        return shown_number(value)
    return value.shown if isinstance(value, Said) else value


def shown_number(value: float) -> str:
    """Six decimals, or six digits of a number that is smaller than one: nobody wants to be told seventeen."""
    return str(round(value, 6) if abs(value) >= 1 else float(f"{value:.6g}"))


def _keeping(plain: Callable[..., str]) -> Callable[..., str]:
    def keeping(value: Any, *arguments: Any) -> str:
        text = plain(value, *arguments)
        return Said(text) if isinstance(value, Said) else text

    return keeping


@jinja2.pass_environment
def _join(environment: jinja2.Environment, value: Any, separator: Any = "", attribute: Any = None) -> str:
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    return join(items, str(separator))


class _Joins(NodeTransformer):
    """``a ~ b`` by a filter of our own, which knows what was said."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        joined = nodes.Filter(nodes.List(node.nodes), _JOIN, [], [], None, None, lineno=node.lineno)
        return joined.set_environment(_ENVIRONMENT)


_ENVIRONMENT = _Environment()


class Template:
    """A compiled template; call it with its names.

    Raises:
        LanguageError: not a template of this language; its ``offset`` says where.
    """

    __slots__ = ("_constant", "_pieces", "_slow", "members", "names", "paths", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        tree = _parse(source)
        self.names: frozenset[str] = frozenset(meta.find_undeclared_variables(tree))
        """Names that a call must bring, except where the template tests for them."""
        self.paths: frozenset[tuple[str, ...]] = frozenset(find_members(tree, self.names))
        """`members` with the steps from lists to their items: ``("draft", "*", "text")``."""
        self.members: frozenset[tuple[str, ...]] = frozenset(
            tuple(step for step in path if step != ITEM) for path in self.paths
        )
        """What it reads of each name: ``("draft", "text")`` for ``{{ draft.text }}`` and, where ``draft`` is a list,
        for ``{% for d in draft %}{{ d.text }}{% endfor %}``; ``("draft",)`` where it may read anything of it."""
        self._pieces = _pieces(tree)
        constant = not self.names and self._pieces is not None
        self._constant = (
            "".join(piece({}) if callable(piece) else piece for piece in self._pieces or ()) if constant else None
        )
        self._slow = None if self._pieces is not None else _compile(tree, source)

    def __call__(self, names: Mapping[str, Any]) -> str:
        """The text.

        Raises:
            ConfigError: a name is missing, a value does not fit, or the text is longer than a million characters.
        """
        return settle(self._fill(names)) if self._constant is None else self._constant

    def said(self, names: Mapping[str, Any]) -> str:
        """The text, to be shown by another template: `Said` if it begins with what was said.

        Raises:
            ConfigError: as for a call.
        """
        return as_said(self._fill(names)) if self._constant is None else self._constant

    def _fill(self, names: Mapping[str, Any]) -> str:
        try:
            if self._pieces is not None:
                text = "".join([piece if isinstance(piece, str) else piece(names) for piece in self._pieces])
                if len(text) <= MAX_OUTPUT:
                    return text
            else:
                return _render(self._slow, names)
        except KeyError as error:
            name = str(error.args[0])
            raise ConfigError(f"template {_shorten(self.source)} needs '{name}'.{suggest(name, names)}") from None
        except Exception as error:
            raise ConfigError(f"template {_shorten(self.source)} cannot be filled: {error}") from None
        raise ConfigError(f"template {_shorten(self.source)} gives more than {MAX_OUTPUT:,} characters")

    def __repr__(self) -> str:
        return f"Template({self.source!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __reduce__(self) -> tuple[type[Template], tuple[str]]:
        return type(self), (self.source,)


def _parse(source: str) -> nodes.Template:
    if len(source) > MAX_SOURCE:
        raise LanguageError(f"a template of {len(source):,} characters is too long (at most {MAX_SOURCE:,})")
    try:
        tree = _ENVIRONMENT.parse(source)
        _check(tree, source)
    except jinja2.TemplateSyntaxError as error:
        raise LanguageError(f"not a template: {error.message}", _line_offset(source, error.lineno)) from None
    except (RecursionError, ValueError, OverflowError) as error:
        if isinstance(error, LanguageError):
            raise
        raise LanguageError(
            f"not a template: {'nested too deep' if isinstance(error, RecursionError) else error}"
        ) from None
    return tree


def _check(node: nodes.Node, source: str, loops: int = 0, depth: int = 0) -> None:
    """Refuse what the language does not have, before Jinja compiles (and folds) anything."""

    def refuse(what: str) -> LanguageError:
        return LanguageError(what, _line_offset(source, node.lineno))

    if depth > MAX_DEPTH:
        raise refuse(f"not a template: nested deeper than {MAX_DEPTH} levels")
    if not isinstance(node, _ALLOWED):
        raise refuse(
            f"a template cannot use {type(node).__name__.lower()}: it may show names, filter, choose and repeat"
        )
    if isinstance(node, nodes.Name) and node.name in ("self", "super", "caller"):
        raise refuse(f"'{node.name}' is not a name of templates")
    if isinstance(node, nodes.Filter):
        if node.name not in FILTERS:
            raise refuse(f"'{node.name}' is not a filter of templates.{suggest(node.name, FILTERS)}")
        # `text | join(text)` would square the length of a text, and keywords reach into attributes.
        plain = all(isinstance(argument, nodes.Const) for argument in node.args)
        if not plain or node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise refuse(f"filter '{node.name}' takes only plain numbers and texts in its parentheses")
    if isinstance(node, nodes.Test) and node.name not in _ENVIRONMENT.tests:
        raise refuse(f"'{node.name}' is not a test of templates.{suggest(node.name, _TESTS)}")
    if isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
        raise refuse(f"'.{node.attr}' is not allowed")
    if isinstance(node, nodes.For):
        loops += 1
        if loops > 2 or node.recursive:
            raise refuse("loops may be nested two deep")
    for child in node.iter_child_nodes():
        _check(child, source, loops, depth + 1)


def _line_offset(source: str, line: int) -> int:
    """Offset of the first visible character of a line (1-based)."""
    lines = source.split("\n")
    line = min(max(line, 1), len(lines))
    blank = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    return sum(len(text) + 1 for text in lines[: line - 1]) + blank


def name_offset(source: str, name: str) -> int:
    """Offset of the first use of ``name`` inside a template's braces."""
    for braces in re.finditer(r"\{[{%].*?[}%]\}", source, re.DOTALL):
        if found := re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", braces[0]):
            return braces.start() + found.start()
    return 0


def _compile(tree: nodes.Template, source: str) -> jinja2.Template:
    try:
        return _ENVIRONMENT.from_string(_Joins().visit(tree))
    except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError, ValueError, OverflowError) as error:
        raise LanguageError(f"not a template: {getattr(error, 'message', None) or 'too complex'}") from None


def _render(template: jinja2.Template | None, names: Mapping[str, Any]) -> str:
    assert template is not None
    written, parts = 0, []
    for part in template.generate(names):
        written += len(part)
        if written > MAX_OUTPUT:
            raise ConfigError(f"it gives more than {MAX_OUTPUT:,} characters")
        parts.append(part)
    return "".join(parts)


def _pieces(tree: nodes.Template) -> tuple[str | _Piece, ...] | None:
    """The template as texts and lookups, or None if it needs Jinja."""
    found: list[str | _Piece] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            before = found[-1] if found else ""
            piece = _piece(node, begins=not isinstance(before, str) or begins_line(before))
            if piece is None:
                return None
            found.append(piece)
    return tuple(found)


def _piece(node: nodes.Node, *, begins: bool) -> str | _Piece | None:
    """A part of the template; ``begins``: a line may begin here, and so what was said needs its mark."""
    if isinstance(node, nodes.TemplateData):
        return node.data
    if isinstance(node, nodes.Name):
        return _show(node.name, begins=begins)
    if isinstance(node, nodes.Getitem | nodes.Getattr):
        return _show_item(*path) if (path := _lookups(node)) else None
    if isinstance(node, nodes.Filter) and isinstance(node.node, nodes.Name) and node.name == "join" and not node.kwargs:
        separators = [argument.value for argument in node.args if isinstance(argument, nodes.Const)]
        if len(separators) <= 1 and all(isinstance(separator, str) for separator in separators):
            return _show_joined(node.node.name, "".join(separators))
    return None


def _lookups(node: nodes.Node) -> tuple[Any, ...] | None:
    """``sub.draft.fields[0]`` -> its name and keys; None for anything else."""
    keys: list[Any] = []
    while not isinstance(node, nodes.Name):
        if isinstance(node, nodes.Getattr):
            keys.append(node.attr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            keys.append(node.arg.value)
        else:
            return None
        node = node.node
    return (node.name, *reversed(keys))


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    return str(_shown(value))


def _show(name: str, *, begins: bool) -> _Piece:
    if begins:
        return lambda names: _text(names[name])

    def show(names: Mapping[str, Any]) -> str:
        value = names[name]
        return value if isinstance(value, str) else str(_shown(value))

    return show


def _show_item(name: str, *keys: Any) -> _Piece:
    def show(names: Mapping[str, Any]) -> str:
        value = names[name]
        for key in keys:
            try:
                value = value[key]
            except (LookupError, TypeError):
                raise ConfigError(f"'{name}' has no item {key!r}") from None
        return _text(value)

    return show


def _show_joined(name: str, separator: str) -> _Piece:
    def show(names: Mapping[str, Any]) -> str:
        return _text(join(names[name], separator))

    return show


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "...")
