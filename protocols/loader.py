"""From a YAML file to a `Protocol`, with every fault of the file in one report.

A part with a fault is set aside and the rest is still checked, so that one run shows everything there is to repair.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import networkx as nx
from pydantic import BaseModel

from arena.protocols.checks import Step, check_graph
from arena.protocols.documents import (
    Document,
    KeyPath,
    find_faults,
    parse_document,
    read_document,
    read_scalar,
    validate_model,
)
from arena.protocols.errors import ConfigError, Fault, LanguageError, SourceError, UnknownNameError, suggest
from arena.protocols.expressions import FUNCTIONS, Expression
from arena.protocols.graph import END, START, Edge, Node, Protocol, Rewards, Role
from arena.protocols.quotes import QuoteRule
from arena.protocols.schema import EdgeFile, NodeFile, ProtocolFile, QuoteFile, RewardsFile, RoleFile
from arena.protocols.templates import Template, name_offset

__all__ = ["compile_document", "library", "load_protocol", "read_document", "validate_model"]

LIBRARY = Path(__file__).parent / "library"

TURN_NAMES = ("role", "round", "answer", "other", "sides")
"""What the engine adds to the fields and params in openings, prompts and cues."""
MESSAGE_NAMES = ("role", "text", "answer", "cue", "round")
REWARD_NAMES = ("margin", "p", "won", "correct")
EDGE_NAMES = ("round", "visits")
_RESERVED = {*TURN_NAMES, *MESSAGE_NAMES, *REWARD_NAMES, *EDGE_NAMES, *FUNCTIONS, "true", "false"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAYS = ("each_turn", "end")
_MOST_TIMES = 10_000

Part = TypeVar("Part", bound=BaseModel)


def library() -> dict[str, str]:
    """The protocols that come with the package: name -> summary."""
    return {path.stem: str(read_document(path).get(("summary",)) or "") for path in sorted(LIBRARY.glob("*.yaml"))}


def load_protocol(name_or_path: str | Path, params: Mapping[str, Any] | None = None) -> Protocol:
    """Read, check and compile a protocol.

    Args:
        name_or_path: a name from `library`, or a path to a YAML file.
        params: values in place of the defaults of the file's ``params``; texts are read as YAML scalars
            where the default is no text.

    Raises:
        SourceError: the file has faults; all are listed with their places.
        ConfigError: ``params`` names no param of the protocol or gives it a value of another type.
        UnknownNameError: no protocol of that name.
    """
    return compile_document(read_document(_find(name_or_path)), params)


def _find(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if isinstance(name_or_path, Path) or path.suffix or len(path.parts) != 1:
        return path
    inside = LIBRARY / f"{name_or_path}.yaml"
    if inside.is_file():
        return inside
    if path.is_file():
        return path
    names = [item.stem for item in LIBRARY.glob("*.yaml")]
    raise UnknownNameError(f"there is no protocol '{name_or_path}'.{suggest(str(name_or_path), names)}")


def compile_document(document: Document, params: Mapping[str, Any] | None = None) -> Protocol:
    """Compile a parsed protocol file; see `load_protocol`."""
    return _Compiler(document, dict(params or {})).compile()


def _compile_text(text: str, file: str, params: Mapping[str, Any]) -> Protocol:
    return compile_document(parse_document(text, file), params)


class _Compiler:
    """Collects faults while it turns the parts of a file into a protocol."""

    def __init__(self, document: Document, overrides: dict[str, Any]) -> None:
        self.document = document
        self.overrides = overrides
        self.faults: list[Fault] = []
        self.used_params: set[str] = set()
        self.used_fields: set[str] = set()

    def compile(self) -> Protocol:
        whole, self.faults = find_faults(self.document, ProtocolFile)
        if not isinstance(self.document.data, dict):
            raise SourceError(self.faults)
        self.read_params()
        self.read_fields()
        self.role_files = self.parts("roles", RoleFile)
        self.node_files = self.parts("nodes", NodeFile)
        self.role_names = self.declared("roles")
        self.node_names = self.declared("nodes")
        self.judges = {file.judge for file in self.node_files.values() if file.judge}
        roles = self.read_roles()
        nodes = self.read_nodes(roles)
        edges = self.read_edges()
        message = self.read_message(nodes)
        rewards = self.read_rewards(nodes)
        self.check_unused()
        if whole is None or self.faults:
            raise SourceError(sorted(set(self.faults), key=lambda fault: (fault.line, fault.column, fault.what)))
        return Protocol(
            name=whole.name,
            version=whole.version,
            summary=whole.summary,
            paper=whole.paper,
            params=self.params,
            required_fields=tuple(name for name in whole.fields if not name.endswith("?")),
            optional_fields=tuple(name[:-1] for name in whole.fields if name.endswith("?")),
            roles=roles,
            nodes=nodes,
            edges=tuple(edges),
            message=message,
            rewards=rewards,
            fingerprint=self.fingerprint(whole),
            digraph=_digraph(nodes, edges),
            rebuild=partial(_compile_text, self.document.text, self.document.file, self.overrides),
        )

    def add(self, path: KeyPath, what: str, *, key: bool = False, offset: int | None = None) -> None:
        self.faults.append(self.document.fault(path, what, key=key, offset=offset))

    def declared(self, section: str) -> list[str]:
        """All names of a section, those of faulty parts included."""
        found = self.document.get((section,))
        return list(found) if isinstance(found, dict) else []

    def parts(self, section: str, model: type[Part]) -> dict[str, Part]:
        """The parts of a section that are well formed; faults of the others are known from the whole file."""
        found = {name: find_faults(self.document, model, (section, name))[0] for name in self.declared(section)}
        for name in found:
            if not _NAME.fullmatch(name):
                self.add((section, name), f"'{name}' is not a name: use letters, digits, _ and -", key=True)
        return {name: part for name, part in found.items() if part is not None}

    # -- params and fields

    def read_params(self) -> None:
        raw = self.document.get(("params",))
        self.params = {}
        for name, default in raw.items() if isinstance(raw, dict) else ():
            if not _PLAIN_NAME.fullmatch(name):
                self.add(("params", name), f"'{name}' is not a name: use letters, digits and _", key=True)
            elif name in _RESERVED:
                self.add(("params", name), f"'{name}' has a meaning of its own: choose another name", key=True)
            else:
                # A faulty default is known from the whole file; any value keeps its users from being blamed too.
                self.params[name] = default if isinstance(default, int | float | str) else 1
        for name, value in self.overrides.items():
            if name not in self.params:
                raise ConfigError(f"'{name}' is not a param of {self.document.file}.{suggest(name, self.params)}")
            self.params[name] = _convert(name, value, self.params[name])

    def read_fields(self) -> None:
        raw = self.document.get(("fields",))
        self.fields: list[str] = []
        for index, text in enumerate(raw if isinstance(raw, list) else ()):
            name = str(text).removesuffix("?")
            if name in self.fields:
                self.add(("fields", index), f"field '{name}' is listed twice")
            elif name in _RESERVED:
                self.add(("fields", index), f"'{name}' has a meaning of its own: choose another name for the field")
            elif name in self.params:
                self.add(("params", name), f"param '{name}' hides the field of that name: rename it", key=True)
            self.fields.append(name)
        self.required = {text for text in raw if isinstance(text, str)} if isinstance(raw, list) else set()

    # -- roles

    def read_roles(self) -> dict[str, Role]:
        speakers = {file.speak for file in self.node_files.values() if file.speak}
        known_speakers = len(self.node_files) == len(self.node_names) and speakers.issubset(self.role_names)
        roles = {}
        for name, file in self.role_files.items():
            path: KeyPath = ("roles", name)
            for index, seen in enumerate(file.sees):
                if seen not in self.fields:
                    self.add(
                        (*path, "sees", index), f"'{seen}' is not a field of this protocol.{suggest(seen, self.fields)}"
                    )
            self.used_fields.update(file.sees)
            is_judge = name in self.judges
            if is_judge:
                self.refuse_keys(path, ("argues", "opening"), "a judge argues nothing and brings its own instructions")
                if "answers" in self.fields and "answers" not in file.sees:
                    what = (
                        f"role '{name}' judges but does not see 'answers', so it could decide nothing: add it to 'sees'"
                    )
                    self.add(path, what, key=True)
            elif "hears" in (self.document.get(path) or {}):
                self.add(
                    (*path, "hears"),
                    "only a judge chooses what it hears: remove it, or use 'to' at the nodes",
                    key=True,
                )
            if known_speakers and not is_judge and name not in speakers:
                self.add(path, f"role '{name}' has no node: remove it, or write a node with 'speak: {name}'", key=True)
            opening = self.template((*path, "opening"), file.opening, name, file)
            roles[name] = Role(name, tuple(dict.fromkeys(file.sees)), file.argues, file.hears, opening, is_judge)
        self.check_seats()
        return roles

    def check_seats(self) -> None:
        seats: dict[int, str] = {}
        for name, file in self.role_files.items():
            if file.argues is None or name in self.judges:
                continue
            path: KeyPath = ("roles", name, "argues")
            if file.argues in seats:
                self.add(path, f"seat {file.argues} is taken by role '{seats[file.argues]}'")
            seats[file.argues] = name
            if "answers" not in self.required:
                self.add(path, "a role can argue only if 'fields' lists 'answers'")
        if len(self.role_files) == len(self.role_names):
            for seat, name in seats.items():
                if seat >= len(seats):
                    self.add(("roles", name, "argues"), f"seats count from 0 without a gap, so {seat} is too high")

    def refuse_keys(self, path: KeyPath, keys: Iterable[str], reason: str) -> None:
        written = self.document.get(path)
        for key in keys:
            if isinstance(written, dict) and key in written:
                self.add((*path, key), f"'{key}' does nothing here: {reason}", key=True)

    # -- nodes

    def read_nodes(self, roles: Mapping[str, Role]) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for name, file in self.node_files.items():
            path: KeyPath = ("nodes", name)
            if name in (START, END):
                self.add(path, f"'{name}' is reserved: choose another name", key=True)
            if (file.speak is None) == (file.judge is None):
                self.add(path, "a node has either 'speak: ROLE' or 'judge: ROLE'", key=True)
                continue
            kind: Literal["speak", "judge"] = "judge" if file.judge else "speak"
            role_name = cast(str, file.judge or file.speak)
            if kind == "judge":
                self.refuse_keys(path, ("prompt", "cue", "quote", "limit", "to"), "a judge does not speak")
            elif role_name in self.judges:
                self.add((*path, kind), f"'{role_name}' judges elsewhere and so cannot speak: use another role")
            if role_name not in self.role_names:
                self.add(
                    (*path, kind), f"'{role_name}' is not a role of this protocol.{suggest(role_name, self.role_names)}"
                )
            role_file = self.role_files.get(role_name)
            prompt = self.template((*path, "prompt"), file.prompt, role_name, role_file)
            cue = self.template((*path, "cue"), file.cue, role_name, role_file)
            node = Node(
                name=name,
                kind=kind,
                role=roles.get(role_name) or Role(role_name, ()),
                order=len(nodes),
                prompt=prompt,
                cue=cue,
                quote=self.read_quote(path, file.quote, role_name, role_file),
                audience=self.read_audience(path, file.to),
            )
            if file.limit:
                words = self.whole((*path, "limit", "words"), file.limit.words, 1, 1_000_000)
                tokens = self.whole((*path, "limit", "tokens"), file.limit.tokens, 1, 1_000_000)
                node = replace(node, max_words=words, max_tokens=tokens)
            nodes[name] = node
        return nodes

    def read_quote(
        self, path: KeyPath, quote: str | QuoteFile | None, role: str, role_file: RoleFile | None
    ) -> QuoteRule | None:
        if quote is None:
            return None
        rule = QuoteRule(quote) if isinstance(quote, str) else QuoteRule(quote.field, quote.form, quote.once)
        place = (*path, "quote") if isinstance(quote, str) else (*path, "quote", "field")
        if rule.field not in self.fields:
            self.add(place, f"'{rule.field}' is not a field of this protocol.{suggest(rule.field, self.fields)}")
        elif role_file and rule.field not in role_file.sees:
            self.add(
                place, f"role '{role}' cannot quote '{rule.field}', which it does not see: add it to roles.{role}.sees"
            )
        return rule

    def read_audience(self, path: KeyPath, names: Sequence[str] | None) -> tuple[str, ...] | None:
        for index, name in enumerate(names or ()):
            if name not in self.role_names:
                self.add(
                    (*path, "to", index), f"'{name}' is not a role of this protocol.{suggest(name, self.role_names)}"
                )
        return None if names is None else tuple(names)

    def template(self, path: KeyPath, source: str | None, role: str, role_file: RoleFile | None) -> Template | None:
        """Compile a template of a role, which may name only what that role sees."""
        template = self.compile_template(path, source)
        if template is None or role_file is None:
            return template
        for name in sorted(template.names):
            if what := self.leak(name, role, role_file):
                self.add(path, what, offset=name_offset(template.source, name))
        return template

    def compile_template(self, path: KeyPath, source: str | None) -> Template | None:
        if source is None:
            return None
        try:
            template = Template(source)
        except LanguageError as error:
            self.add(path, error.what, offset=error.offset)
            return None
        self.used_params |= template.names & self.params.keys()
        return template

    def leak(self, name: str, role: str, file: RoleFile) -> str | None:
        """Why a template of ``role`` may not show ``name``."""
        add = f"add it to roles.{role}.sees or do not show it here"
        if name in self.params or name in file.sees or name in ("role", "round"):
            return None
        if name == "answer":
            return (
                None if file.argues is not None else f"role '{role}' argues no answer, so 'answer' is empty: remove it"
            )
        if name in ("other", "sides"):
            if name == "other" and (file.argues is None or self.seats() != 2):
                return "'other' is the answer of the other of two roles that argue; there are no two here"
            return (
                None if "answers" in file.sees else f"'{name}' shows 'answers', which role '{role}' does not see: {add}"
            )
        if name in self.fields:
            return f"role '{role}' does not see field '{name}': {add}"
        known = {*file.sees, *self.params, *TURN_NAMES}
        return f"'{name}' is neither a field that role '{role}' sees nor a param.{suggest(name, known)}"

    def seats(self) -> int:
        return sum(file.argues is not None for file in self.role_files.values())

    # -- expressions

    def expression(self, path: KeyPath, source: float | str, names: Sequence[str]) -> Expression | None:
        try:
            expression = Expression(source, self.params)
        except LanguageError as error:
            self.add(path, error.what, offset=error.offset)
            return None
        self.used_params |= expression.uses & self.params.keys()
        for name in sorted(expression.names - set(names)):
            found = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", expression.source)
            known = [*names, *self.params]
            what = f"'{name}' is not a name here.{suggest(name, known)}"
            self.add(path, what, offset=found.start() if found else 0)
        return expression if expression.names <= set(names) else None

    def try_out(self, path: KeyPath, expression: Expression | None, names: Mapping[str, float]) -> None:
        """Evaluate an expression on ordinary values, so that a text in place of a number is found now."""
        if expression is None:
            return
        try:
            value = expression(names)
        except ConfigError as error:
            self.add(path, str(error))
        else:
            if not isinstance(value, int | float) or not math.isfinite(value):
                self.add(path, f"'{expression.source}' is {value!r}, not a number")

    def constant(self, path: KeyPath, source: float | str) -> Any:
        """The value of an expression over params."""
        expression = self.expression(path, source, ())
        if expression is None:
            return None
        try:
            return expression({})
        except ConfigError as error:
            self.add(path, str(error))
            return None

    def whole(self, path: KeyPath, source: int | str | None, low: int, high: int) -> int | None:
        """A whole number in [low, high], written plainly or as expression over params."""
        value = None if source is None else self.constant(path, source)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            self.add(path, f"'{source}' is {value!r}, not a whole number")
        elif not low <= value <= high:
            self.add(path, f"'{source}' is {value:g}; it must be from {low} to {high:,}")
        else:
            return int(value)
        return None

    # -- edges

    def read_edges(self) -> list[Edge]:
        raw = self.document.get(("edges",))
        edges: list[Edge] = []
        steps: list[Step] = []
        before = len(self.faults)
        for index, item in enumerate(raw if isinstance(raw, list) else ()):
            path: KeyPath = ("edges", index)
            if isinstance(item, str):
                groups = self.read_chain(path, item, least=2)
                found = [Edge(frozenset(a), frozenset(b)) for a, b in itertools.pairwise(groups)]
            else:
                file = find_faults(self.document, EdgeFile, path)[0] if isinstance(item, dict) else None
                if file is None:
                    before = -1
                    continue
                groups = [
                    self.read_chain((*path, key), text)[0] for key, text in (("from", file.from_), ("to", file.to))
                ]
                found = [self.read_guards(path, file, groups)]
            edges += found
            for edge, (sources, targets) in zip(found, itertools.pairwise(groups), strict=True):
                steps.append(Step(tuple(sources), tuple(targets), path, edge.times is not None, edge.guarded))
        if before == len(self.faults) and raw and len(self.node_files) == len(self.node_names):
            for where, what in check_graph(self.node_names, steps):
                self.add(where, what, key=where[0] == "nodes")
        return edges

    def read_guards(self, path: KeyPath, file: EdgeFile, groups: Sequence[Sequence[str]]) -> Edge:
        times = self.whole((*path, "times"), file.times, 0, _MOST_TIMES)
        when = None if file.when is None else self.expression((*path, "when"), file.when, EDGE_NAMES)
        self.try_out((*path, "when"), when, dict.fromkeys(EDGE_NAMES, 1))
        if START in groups[0] and (file.times is not None or file.when is not None):
            self.add(path, "edges from 'start' cannot be bounded or conditional")
        bounded = 0 if file.times is not None and times is None else times
        bound = "" if file.times is None else str(file.times)
        return Edge(frozenset(groups[0]), frozenset(groups[1]), bounded, bound, when)

    def read_chain(self, path: KeyPath, text: str, least: int = 1) -> list[list[str]]:
        """``a & b -> c`` as [[a, b], [c]]; arrows are allowed where ``least`` is 2."""
        groups: list[list[str]] = []
        offset = 0
        links = text.split("->")
        if len(links) < least:
            self.add(path, f"{text!r} has no arrow: write 'a & b -> c'")
            return []
        if least == 1 and len(links) > 1:
            self.add(path, f"{text!r} has an arrow: name only nodes here, joined by '&'")
        for number, link in enumerate(links):
            group: list[str] = []
            for word in link.split("&"):
                name = word.strip()
                at = offset + len(word) - len(word.lstrip())
                self.check_stop(path, name, at, first=number == 0, last=number == len(links) - 1, key=path[-1])
                if name in group:
                    self.add(path, f"'{name}' is named twice", offset=at)
                group.append(name)
                offset += len(word) + 1
            offset += 1
            for alone in (START, END):
                if alone in group and len(group) > 1:
                    self.add(path, f"'{alone}' stands alone: it cannot be joined with '&'")
            groups.append(group)
        return groups

    def check_stop(self, path: KeyPath, name: str, offset: int, *, first: bool, last: bool, key: str | int) -> None:
        if not name:
            self.add(path, "a node is missing: write 'a & b -> c'", offset=offset)
        elif name == START and (not first or key == "to"):
            self.add(path, "nothing can lead to 'start'", offset=offset)
        elif name == END and (not last or key == "from"):
            self.add(path, "nothing can follow 'end'", offset=offset)
        elif name not in (START, END) and name not in self.node_names:
            known = [*self.node_names, START, END]
            self.add(path, f"'{name}' is not a node of this protocol.{suggest(name, known)}", offset=offset)

    # -- message and rewards

    def read_message(self, nodes: Mapping[str, Node]) -> Template:
        source = self.document.get(("message",))
        path: KeyPath = ("message",)
        template = self.compile_template(path, source) if isinstance(source, str) else None
        if template is None:
            return Template(ProtocolFile.model_fields["message"].default)
        for name in sorted(template.names - set(MESSAGE_NAMES)):
            what = f"'{name}' is not a name of messages, which may show only {', '.join(MESSAGE_NAMES)}"
            self.add(path, what, offset=name_offset(source, name))
        shown = {node.name: self.shown_by_message(template, node) for node in nodes.values() if node.kind == "speak"}
        for name, fields in shown.items():
            for hearer in self.hearers(nodes[name]):
                for field, through in fields.items():
                    if field not in self.role_files[hearer].sees:
                        self.add(
                            path,
                            f"'{through}' shows '{field}' of node '{name}' to role '{hearer}', which does not see it: "
                            f"add it to roles.{hearer}.sees, or set nodes.{name}.to",
                            offset=name_offset(source, through),
                        )
        return template

    def shown_by_message(self, message: Template, node: Node) -> dict[str, str]:
        """Task fields that the message shows of a turn of ``node``, each with the name that shows it."""
        shown = {}
        if "answer" in message.names and node.role.argues is not None:
            shown["answers"] = "answer"
        if "cue" in message.names and node.cue:
            for name in node.cue.names:
                field = "answers" if name in ("answer", "other", "sides") else name
                if field in self.fields:
                    shown[field] = "cue"
        return shown

    def hearers(self, node: Node) -> list[str]:
        """Roles other than the speaker that read the turns of ``node``."""
        return [
            name
            for name, file in self.role_files.items()
            if name != node.role.name and node.reaches(name) and not (name in self.judges and file.hears == "quotes")
        ]

    def read_rewards(self, nodes: Mapping[str, Node]) -> Rewards | None:
        file = find_faults(self.document, RewardsFile, ("rewards",))[0] if self.document.get(("rewards",)) else None
        if file is None:
            return None
        path: KeyPath = ("rewards",)
        judges = [name for name, node in self.node_files.items() if node.judge]
        if file.verdict not in judges and (file.verdict not in self.node_names or file.verdict in nodes):
            self.add((*path, "verdict"), f"'{file.verdict}' is not a judge node.{suggest(file.verdict, judges)}")
        if not self.seats() and len(self.role_files) == len(self.role_names):
            self.add(path, "rewards pay roles that argue an answer, and none does: add 'argues: 0' to a role", key=True)
        value = self.expression((*path, "value"), file.value, REWARD_NAMES)
        self.try_out((*path, "value"), value, dict.fromkeys(REWARD_NAMES, 0.5))
        pay = self.params.get(file.pay, file.pay)
        self.used_params |= {file.pay} & self.params.keys()
        if pay not in _PAYS:
            known = [*_PAYS, *(name for name, default in self.params.items() if isinstance(default, str))]
            self.add((*path, "pay"), f"'{pay}' is no way to pay.{suggest(str(pay), known)}")
        bad_quote = self.constant((*path, "bad_quote"), file.bad_quote)
        if isinstance(bad_quote, bool | str):
            self.add((*path, "bad_quote"), f"'{file.bad_quote}' is {bad_quote!r}, not a number")
        elif bad_quote and not any(node.quote for node in self.node_files.values()):
            self.add((*path, "bad_quote"), "no node quotes anything, so this is never paid: remove it", key=True)
        if value is None or not isinstance(bad_quote, int | float):
            return None
        return Rewards(file.verdict, value, cast(Any, pay), float(bad_quote))

    # -- the whole

    def check_unused(self) -> None:
        """Keys that change nothing are mistakes; only said when nothing else could explain them."""
        if self.faults:
            return
        for name in self.params:
            if name not in self.used_params:
                self.add(("params", name), f"param '{name}' is used nowhere: remove it", key=True)
        for index, name in enumerate(self.fields):
            if name not in self.used_fields:
                self.add(("fields", index), f"no role sees field '{name}': add it to a role's 'sees', or remove it")

    def fingerprint(self, whole: ProtocolFile) -> str:
        content = whole.model_dump(mode="json", exclude={"summary", "paper"})
        for section in ("roles", "nodes"):
            # Order counts: it is the order of turns inside a superstep.
            content[section] = list(content[section].items())
        content["params"] = self.params
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _convert(name: str, value: Any, default: Any) -> Any:
    """An override in the type of the default."""
    if isinstance(value, str) and not isinstance(default, str):
        try:
            value = read_scalar(value.strip())
        except ValueError as error:
            raise ConfigError(f"param '{name}': {error}") from None
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise ConfigError(f"param '{name}' is {kinds[type(default)]} (default {default!r}), not {value!r}")
    return value


def _digraph(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> nx.MultiDiGraph[str]:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_node(START, kind=START)
    for node in nodes.values():
        graph.add_node(node.name, kind=node.kind, role=node.role.name, order=node.order)
    graph.add_node(END, kind=END)
    for index, edge in enumerate(edges):
        when = edge.when.source if edge.when else None
        for source in sorted(edge.sources):
            for target in sorted(edge.targets):
                graph.add_edge(source, target, edge=index, times=edge.times, bound=edge.bound, when=when)
    return graph
