"""Names for things that a file or a command line can ask for.

A *spec* is how a user writes one: ``kind`` or ``kind:key=value,key=value`` on a command line, and the same as a mapping
``{kind: ..., key: value}`` in YAML. A `Registry` turns a spec into an object. Built-in entries are import paths, so
listing what there is imports nothing heavy; users add their own with the decorator:

    from arena.agents import AGENTS

    @AGENTS.register("parrot", summary="repeats the last turn")
    def parrot(*, loud: bool = False) -> Agent: ...
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from arena.protocols.arguments import fit_arguments
from arena.protocols.composer import read_value
from arena.protocols.errors import ConfigError, UnknownNameError, suggest

__all__ = ["Registry", "Spec", "parse_spec"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spec:
    """What to build, and with which arguments; a log that holds it can rebuild the object."""

    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.args:
            return self.kind
        return f"{self.kind}:" + ",".join(f"{key}={value}" for key, value in self.args.items())


def parse_spec(value: str | Mapping[str, Any] | Spec) -> Spec:
    """Read ``kind:key=value,...`` or ``{kind: ..., ...}``.

    Values are read by `arena.protocols.documents.read_value`; commas inside of quotes are part of a text, and those
    inside of brackets part of a list or mapping: ``panel:judges=[exact, "match"],rule=mean``.

    Raises:
        ConfigError: the text is not of that form.
    """
    if isinstance(value, Spec):
        return value
    if isinstance(value, Mapping):
        args = dict(value)
        kind = args.pop("kind", None)
        if not isinstance(kind, str):
            raise ConfigError(f"{dict(value)!r} has no 'kind': write {{kind: NAME, ...}}")
        return Spec(kind, args)
    kind, colon, rest = value.partition(":")
    if not kind or (colon and not rest):
        raise ConfigError(f"{value!r} is not a spec: write NAME or NAME:key=value,key=value")
    args = {}
    for item in _items(rest):
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{item!r} in {value!r} is not key=value (a text with commas goes in quotes)")
        if key.strip() in args:
            raise ConfigError(f"'{key.strip()}' is given twice in {value!r}")
        text = text.strip()
        args[key.strip()] = read_value(text, nested=_closing(text, 0) == len(text))
    return Spec(kind.strip(), args)


_ITEM = re.compile(r"""([^=,]*=\s*(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")\s*|[^,]*)(,|\Z)""", re.S)
_BEFORE = re.compile(r"[^=,]*=\s*")
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\"""", re.S)
_AFTER = re.compile(r"\s*(,|\Z)")


def _items(text: str) -> Iterator[str]:
    """The parts between commas that stand outside of quotes and brackets."""
    start, more = 0, bool(text)
    while more:
        found = _ITEM.match(text, start)
        assert found is not None  # its second branch matches whatever comes
        end, after = found.end(1), found
        value = _BEFORE.match(text, start)
        closed = None if value is None else _closing(text, value.end())
        if closed is not None and (comma := _AFTER.match(text, closed)):
            end, after = closed, comma
        yield text[start:end]
        start, more = after.end(), after[0].endswith(",")


def _closing(text: str, start: int) -> int | None:
    """Where the list or mapping that begins at ``start`` has ended; None if none begins or it does not end."""
    if text[start : start + 1] not in ("[", "{"):
        return None
    open_brackets, place = 0, start
    while place < len(text):
        if quoted := _QUOTED.match(text, place):
            place = quoted.end()
            continue
        open_brackets += (text[place] in "[{") - (text[place] in "]}")
        place += 1
        if not open_brackets:
            return place
    return None


@dataclass(slots=True)
class _Entry(Generic[T]):
    factory: Callable[..., T] | str
    summary: str
    heavy: bool = False
    needs: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    nests: tuple[str, ...] = ()

    def load(self) -> Callable[..., T]:
        if isinstance(self.factory, str):
            module, _, attribute = self.factory.partition(":")
            self.factory = getattr(importlib.import_module(module), attribute)
        assert callable(self.factory)
        return self.factory


class Registry(Generic[T]):
    """Factories of one sort of thing by name."""

    def __init__(self, sort: str, home: str = "") -> None:
        self.sort = sort
        """What the things are, for messages: ``agent``, ``judge``, ``tasks``."""
        self._own: dict[str, _Entry[T]] = {}
        self._home = home
        """Module that names the built-in entries when it is imported; imported when the registry is first asked."""

    @property
    def _entries(self) -> dict[str, _Entry[T]]:
        if self._home:
            home, self._home = self._home, ""
            importlib.import_module(home)
        return self._own

    def lazy(
        self,
        name: str,
        path: str,
        summary: str,
        *,
        heavy: bool = False,
        needs: tuple[str, ...] = (),
        aside: tuple[str, ...] = (),
        nests: tuple[str, ...] = (),
    ) -> None:
        """Name a factory by import path ``package.module:attribute`` without importing it.

        Args:
            name: kind in specs.
            path: where the factory is.
            summary: one line for listings.
            heavy: importing it loads torch; `check` does not, and knows no more than ``needs``.
            needs: arguments that a spec must give.
            aside: arguments that do not decide what comes out (`identity`).
            nests: arguments that hold specs of this registry, somewhere in a list or mapping; they are checked, too.
        """
        self._own[name] = _Entry(path, summary, heavy, needs, aside, nests)

    def register(
        self, name: str, *, summary: str, aside: tuple[str, ...] = (), nests: tuple[str, ...] = ()
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator: the function builds what ``name`` stands for; its keyword arguments are the spec's.

        Args:
            name: kind in specs.
            summary: one line for listings.
            aside: arguments that do not decide what comes out (`identity`).
            nests: see `lazy`.
        """

        def add(factory: Callable[..., T]) -> Callable[..., T]:
            self._own[name] = _Entry(factory, summary, aside=aside, nests=nests)
            return factory

        return add

    def names(self) -> dict[str, str]:
        """Name -> one-line summary, sorted."""
        return {name: self._entries[name].summary for name in sorted(self._entries)}

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def factory(self, name: str) -> Callable[..., T]:
        """The factory registered under ``name``.

        Raises:
            UnknownNameError: there is none.
        """
        if name not in self._entries:
            raise UnknownNameError(f"'{name}' is not a known {self.sort}.{suggest(name, self._entries)}")
        return self._entries[name].load()

    def build(self, spec: str | Mapping[str, Any] | Spec, **context: Any) -> T:
        """Build what ``spec`` asks for; ``context`` goes to those factories that name it as a parameter.

        Raises:
            UnknownNameError: no such kind.
            ConfigError: an argument that the kind does not have, one that is missing, or a value of another type.
        """
        spec = parse_spec(spec)
        factory = self.factory(spec.kind)
        parameters = inspect.signature(factory).parameters
        given = {key: value for key, value in context.items() if key in parameters}
        self._fit(spec, parameters, given)
        return factory(**{**given, **fit_arguments(factory, spec.args, f"{self.sort} '{spec.kind}'")})

    def check(self, spec: str | Mapping[str, Any] | Spec, context: Collection[str] = (), *, deep: bool = False) -> None:
        """Whether ``spec`` names something that `build` can build, as far as that is known without heavy imports.

        Args:
            spec: what to check.
            context: names of the context that `build` will be given.
            deep: import what is heavy, and check its arguments too.

        Raises:
            UnknownNameError: no such kind.
            ConfigError: an argument that the kind does not have, one that is missing, or a value of another type; or
                one of these in a spec inside of it (``nests``).
        """
        spec = parse_spec(spec)
        entry = self._entries.get(spec.kind)
        if deep or entry is None or not (entry.heavy and isinstance(entry.factory, str)):
            factory = self.factory(spec.kind)
            self._fit(spec, inspect.signature(factory).parameters, context)
            fit_arguments(factory, spec.args, f"{self.sort} '{spec.kind}'")
            for name in entry.nests if entry is not None else ():
                self._check_nested(spec.args.get(name), context, deep, f"'{name}' of {self.sort} '{spec.kind}'")
        elif missing := [name for name in entry.needs if name not in spec.args]:
            raise self._lacks(spec, missing[0])

    def _check_nested(self, value: Any, context: Collection[str], deep: bool, where: str) -> None:
        """Check the specs in an argument that holds some. What a mapping without a kind means its factory knows."""
        if isinstance(value, list | tuple):
            for number, item in enumerate(value, start=1):
                self._check_nested(item, context, deep, f"{where}, number {number}")
        elif isinstance(value, str) or (isinstance(value, Mapping) and "kind" in value):
            try:
                self.check(value, context, deep=deep)
            except (UnknownNameError, ConfigError) as error:
                raise ConfigError(f"{where}: {error}") from None

    def identity(self, spec: str | Mapping[str, Any]) -> str | dict[str, Any]:
        """``spec`` without what does not decide results, such as what may be spent and where answers are kept.

        A run may be resumed with other specs of the same identity. Specs inside of specs lose it, too; those that can
        hold some have an identity in the long form, ``{kind: ..., ...}``.

        Raises:
            ConfigError: it is no spec.
        """
        kind, args = (parsed := parse_spec(spec)).kind, parsed.args
        entry = self._entries.get(kind)
        aside = args.keys() & entry.aside if entry is not None else set()
        if entry is not None and entry.nests:
            kept_args = {name: value for name, value in args.items() if name not in aside}
            return {"kind": kind} | {
                name: self._identities(value) if name in entry.nests else value for name, value in kept_args.items()
            }
        if not isinstance(spec, str):
            return {name: value for name, value in spec.items() if name not in aside}
        if not aside:
            return spec
        kept = [item for item in _items(spec.partition(":")[2]) if item.partition("=")[0].strip() not in aside]
        return f"{kind}:{','.join(kept)}" if kept else kind

    def _identities(self, value: Any) -> Any:
        """A value with an identity in place of every spec."""
        if isinstance(value, str):
            return self.identity(value) if value.partition(":")[0].strip() in self else value
        if isinstance(value, list | tuple):
            return [self._identities(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if "kind" in value:
            return self.identity(value)
        # Pairs, since a name may be a spec as well, whose identity need not be a text.
        return [[self._identities(name), self._identities(item)] for name, item in value.items()]

    def _fit(self, spec: Spec, parameters: Mapping[str, inspect.Parameter], context: Collection[str]) -> None:
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        for key in spec.args:
            if key not in parameters and not open_ended:
                raise ConfigError(f"'{key}' is not an argument of {self.sort} '{spec.kind}'.{suggest(key, parameters)}")
        for name, parameter in parameters.items():
            required = parameter.default is inspect.Parameter.empty and parameter.kind in (
                inspect.Parameter.KEYWORD_ONLY,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
            )
            if required and name not in spec.args and name not in context:
                raise self._lacks(spec, name)

    def _lacks(self, spec: Spec, name: str) -> ConfigError:
        return ConfigError(f"{self.sort} '{spec.kind}' needs '{name}': write {spec.kind}:{name}=...")
