"""The nodes of a file as they are written: their kind, who acts, and keys that do nothing at that kind."""

from __future__ import annotations

from typing import get_args

from arena.protocols.compiler.given import RESERVED_FIELDS
from arena.protocols.compiler.references import find_nodes, listed
from arena.protocols.compiler.roles import find_roles
from arena.protocols.compiler.scope import MAX_NODES, Move, Unit, key_of
from arena.protocols.compiler.settings import MESSAGE_NAMES, TURN_NAMES
from arena.protocols.documents import KeyPath
from arena.protocols.errors import suggest
from arena.protocols.graph import END, START, NodeKind
from arena.protocols.outputs import OutputRule

__all__ = ["check_conflicts", "name_nodes", "read_moves"]

KINDS: tuple[NodeKind | str, ...] = (*get_args(NodeKind), "use")
_SPEAKING = ("prompt", "cue", "quote", "limit", "output", "retries", "claims", "draw", "best_of", "in_turn", "to")
_KEYS: dict[str, tuple[str, ...]] = {
    "speak": _SPEAKING,
    "critique": ("of", *_SPEAKING),
    "revise": ("of", *_SPEAKING),
    "human": tuple(key for key in _SPEAKING if key != "best_of"),
    "judge": ("reads",),
    "tool": ("of", "run", "arguments", "say", "limit", "to"),
    "verify": ("of", "fields", "say", "to"),
    "vote": ("count", "rule", "say", "to"),
    "select": ("by", "value", "to"),
    "compute": ("say", "to"),
    "use": ("with", "roles", "fields", "to"),
}
"""Kind of a node -> keys that mean something there."""
_TAGS = ("quote", "verified", "unverified", "think")


def read_moves(unit: Unit) -> None:
    """Make the moves of a file, before what they use is unfolded."""
    for name, file in unit.node_files.items():
        path: KeyPath = ("nodes", name)
        if name in (START, END):
            unit.add(path, f"'{name}' is reserved: choose another name", key=True)
        kinds = [kind for kind in KINDS if getattr(file, kind) is not None]
        if len(kinds) != 1:
            what = (
                "a node says what is done, and by whom"
                if not kinds
                else f"a node is one of {' and '.join(map(repr, kinds))}"
            )
            unit.add(path, f"{what}: write exactly one of {', '.join(KINDS)}", key=True)
            unit.sound = False
            continue
        kind = kinds[0]
        others = [key for keys in _KEYS.values() for key in keys if key not in _KEYS[kind]]
        unit.refuse_keys(path, dict.fromkeys(others), f"it has no meaning at '{kind}'")
        move = Move(unit, name, None if kind == "use" else kind, file)  # type: ignore[arg-type]
        unit.moves[name] = move
        unit.keys[key_of(name)] = move
        if move.kind in ("speak", "critique", "revise", "human", "judge", "tool", "verify"):
            _read_actor(move)
        if file.in_turn and move.speaks and move.roles and not move.counted:
            what = "'in_turn' is for several seats, of a role with 'count'; here only one acts: remove it"
            unit.add((*path, "in_turn"), what, key=True)
        if file.output is not None and move.speaks:
            _read_output(move)
    unit.sound = unit.sound and len(unit.moves) == len(unit.node_names)


def _read_actor(move: Move) -> None:
    unit, kind = move.unit, str(move.kind)
    path = (*move.path, kind)
    name: str = getattr(move.file, kind)
    move.roles = find_roles(unit, path, name)
    group = move.roles[0].group.rpartition(".")[2] if move.roles else ""
    move.counted = bool(move.roles) and move.roles[0].number > 0 and name == group
    file = unit.role_files.get(group)
    if file is None:
        return
    wanted = {"tool": "tools", "verify": "check"}.get(kind)
    program = "tools" if file.tools else "check" if file.check is not None else None
    if wanted == program:
        return
    needs = {"tools": "a toolbox: give it 'tools: [...]'", "check": "a checker: give it 'check: ...'"}
    if wanted:
        unit.add(path, f"role '{group}' must be {needs[wanted]}")
    else:
        unit.add(path, f"role '{group}' is a program and can neither speak nor judge: use another role")


# -- what a turn must look like


def _read_output(move: Move) -> None:
    """The rule of the node's output; its faults are reported."""
    unit, output, path = move.unit, move.file.output, (*move.path, "output")
    assert output is not None
    forms = [key for key in ("choice", "regex", "json", "call") if unit.document.has((*path, key))]
    if len(forms) != 1:
        unit.add(path, "an output has exactly one of 'choice', 'regex', 'json' and 'call'", key=True)
        return
    if (output.tag or "").lower() in _TAGS:
        unit.add((*path, "tag"), f"<{output.tag}> has a meaning of its own: choose another tag")
    choices = tuple(output.choice) if isinstance(output.choice, list) else ()
    rule = OutputRule(
        kind=forms[0],  # type: ignore[arg-type]
        choices=choices,
        choices_field=output.choice if isinstance(output.choice, str) else "",
        pattern=output.regex or "",
        schema=output.json_ or {},
        tools=tuple(output.call or ()),
        tag=output.tag or "",
        optional=output.optional,
    )
    place = (*path, forms[0])
    if what := unit.work.rule_fault(move.file, rule):
        unit.add((*path, "optional") if what.startswith("'optional'") else place, what)
        return
    if rule.choices_field:
        _check_choices_field(move, rule.choices_field, place)
    unit.outputs[move.name] = rule
    for name in rule.fields:
        if name in RESERVED_FIELDS:
            unit.add(place, f"'{name}' is a field that every turn has: give it another name in the output")


def _check_choices_field(move: Move, name: str, place: KeyPath) -> None:
    unit = move.unit
    if name not in unit.fields:
        unit.add(
            place,
            f"'{name}' is not a field of this protocol.{suggest(name, unit.fields)} For fixed texts, write a list",
        )
        return
    for role in move.roles:
        if name not in role.sees:
            own = role.group.rpartition(".")[2]
            unit.add(
                place, f"role '{own}' cannot choose from '{name}', which it does not see: add it to roles.{own}.sees"
            )
            return


# -- names


def name_nodes(unit: Unit) -> None:
    """Give every node its name, when all that is used is unfolded: a program is as many nodes as what it is about."""
    for move in unit.moves.values():
        for other in _before(move, ()):
            if not other.names and other.kind is not None:
                _name(other)
    for move in unit.live_moves():
        unit.work.nodes += max(len(move.names), 1)
    if unit.work.nodes > MAX_NODES:
        unit.add(("nodes",), f"the protocol unfolds to more than {MAX_NODES} nodes", key=True)
        unit.work.raise_faults()


def _before(move: Move, within: tuple[Move, ...]) -> list[Move]:
    """The move, after those that decide how many nodes it is."""
    if move.kind not in ("tool", "verify") or move in within:
        return [move]
    found: list[Move] = []
    for name in listed(move.file.of)[:1]:
        ref = find_nodes(move.unit, name)
        for other in ref.moves if ref else ():
            if other.unit is move.unit:
                found += _before(other, (*within, move))
    return [*found, move]


def _name(move: Move) -> None:
    full = move.unit.full(move.name)
    if move.kind in ("tool", "verify"):
        refs = [ref for ref in (find_nodes(move.unit, name) for name in listed(move.file.of)) if ref]
        if len(refs) == 1 and refs[0].many:
            size = len(refs[0].names) or max(len(other.names) for other in refs[0].moves)
            move.counted = size > 0
            move.roles = move.roles[:1] * size
    if move.counted:
        numbers = (
            [role.number for role in move.roles]
            if move.kind not in ("tool", "verify")
            else range(1, len(move.roles) + 1)
        )
        move.names = tuple(f"{full}-{number}" for number in numbers)
    else:
        move.names = (full,)


def check_conflicts(unit: Unit) -> None:
    """Names that would mean two things in templates and expressions."""
    taken: dict[str, str] = {}
    for name, move in unit.moves.items():
        key = key_of(name)
        numbered = [key_of(each.rpartition(".")[2]) for each in move.names] if move.counted else []
        numbered += [key_of(inner.name.rpartition(".")[2]) for inner in move.inner] if move.counted else []
        for each in (key, *numbered):
            if each in taken and taken[each] != name:
                what = f"node '{name}' and node '{taken[each]}' are both '{each}' in expressions: rename one"
                unit.add(move.path, what, key=True)
            taken.setdefault(each, name)
            _check_node_name(unit, move, each)
        for drawn, path in _own_names(move):
            if drawn in RESERVED_FIELDS or (move.file.draw and drawn in TURN_NAMES):
                unit.add(path, f"'{drawn}' has a meaning of its own: choose another name", key=True)
            elif move.file.draw and (drawn in unit.params or drawn in unit.fields):
                sort = "param" if drawn in unit.params else "field"
                unit.add(path, f"'{drawn}' hides the {sort} of that name: choose another name", key=True)


def _check_node_name(unit: Unit, move: Move, key: str) -> None:
    sort = (
        "field"
        if key in unit.fields
        else "param"
        if key in unit.params
        else "list"
        if key in unit.lists
        else "name of templates"
        if key in {*TURN_NAMES, *MESSAGE_NAMES} - {"answer"}
        else ""
    )
    if sort:
        unit.add(move.path, f"'{key}' is already the name of a {sort}: rename the node", key=True)


def _own_names(move: Move) -> list[tuple[str, KeyPath]]:
    found = [(name, (*move.path, "draw", name)) for name in move.file.draw or ()]
    return found + [(name, (*move.path, "compute", name)) for name in move.file.compute or ()]
