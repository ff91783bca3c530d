"""Who takes part: roles, their seats, and what they see and argue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arena.protocols.compiler.prompts import check_opening
from arena.protocols.compiler.scope import Unit
from arena.protocols.compiler.values import whole
from arena.protocols.documents import KeyPath
from arena.protocols.errors import UserError, suggest
from arena.protocols.graph import Role
from arena.protocols.programs import CHECKS, TOOLS
from arena.protocols.schema import RoleFile

__all__ = ["MAX_SEATS", "check_roles", "find_roles", "read_roles"]

MAX_SEATS = 64


def read_roles(unit: Unit) -> None:
    """Make the roles of a file; who plays a nested one is known in ``unit.outer``."""
    judging = {file.judge for file in unit.node_files.values() if file.judge}
    raters = {file.by for file in unit.node_files.values() if file.by}
    raters |= {file.best_of.by for file in unit.node_files.values() if file.best_of and file.best_of.by}
    for name, file in unit.role_files.items():
        count = _count(unit, name, file)
        rates = name in raters and file.check is None
        for number in range(1, count + 1) if count else (0,):
            own = f"{name}-{number}" if number else name
            argues = None if file.argues is None else file.argues + max(number - 1, 0)
            full = unit.full(own)
            role = Role(
                name=full,
                sees=tuple(dict.fromkeys(file.sees)),
                argues=argues,
                hears=file.hears,
                opening=unit.template(("roles", name, "opening"), file.opening),
                is_judge=name in judging or rates,
                seat=unit.outer[own].seat if own in unit.outer else full,
                group=unit.full(name),
                number=number,
                count=count,
                tools=tuple(file.tools),
                check=file.check,
                scope=unit.scope,
            )
            unit.roles[name] = (*unit.roles.get(name, ()), role)


def _count(unit: Unit, name: str, file: RoleFile) -> int:
    """How many seats; 0 for a role without ``count``."""
    if file.count is None:
        return 0
    return whole(unit, ("roles", name, "count"), file.count, 1, MAX_SEATS) or 1


def find_roles(unit: Unit, path: KeyPath, name: str) -> tuple[Role, ...]:
    """The seats that a name means: all of a counted role, or one (``debater-2``); none, with a fault, for no role."""
    if name in unit.roles:
        return unit.roles[name]
    group, _, number = name.rpartition("-")
    if group in unit.roles and number.isdecimal():
        counted = [role for role in unit.roles[group] if role.number == int(number)]
        if counted:
            return tuple(counted)
    if name not in unit.role_names:
        unit.add(path, f"'{name}' is not a role of this protocol.{suggest(name, unit.role_names)}")
    return ()


def check_roles(unit: Unit) -> None:
    """What must hold of each role and of all of them."""
    used = _uses(unit)
    for name, file in unit.role_files.items():
        path: KeyPath = ("roles", name)
        for index, seen in enumerate(file.sees):
            if seen not in unit.fields:
                what = f"'{seen}' is not a field of this protocol.{suggest(seen, unit.fields)}"
                unit.add((*path, "sees", index), what)
        if unit.sound and name not in used and used.keys() <= unit.role_files.keys():
            kind = "tool" if file.tools else "verify" if file.check is not None else "speak"
            what = f"role '{name}' has no node: remove it, or write a node with '{kind}: {name}'"
            unit.add(path, what, key=True)
        if file.tools or file.check is not None:
            _check_program(unit, path, file)
        else:
            _check_person(unit, path, name, file, used.get(name, set()))
    _check_seats(unit, {name for name, uses in used.items() if _only_judges(uses)})


def _uses(unit: Unit) -> dict[str, set[str]]:
    """Role -> what it does: kinds of nodes, ``by``, ``use``."""
    found: dict[str, set[str]] = {}

    def note(name: str | None, use: str) -> None:
        if name is not None:
            group, _, number = name.rpartition("-")
            counted = name not in unit.role_names and group in unit.role_names and number.isdecimal()
            found.setdefault(group if counted else name, set()).add(use)

    for file in unit.node_files.values():
        for kind in ("speak", "critique", "revise", "human", "judge", "tool", "verify"):
            note(getattr(file, kind), kind)
        note(file.by, "by")
        note(file.best_of.by if file.best_of else None, "by")
        if file.use is not None:
            for played in file.roles.values():
                note(played, "use")
    for move in unit.moves.values():
        for inner in move.inner:
            for role in inner.outer.values():
                note(role.group.rpartition(".")[2], "use")
    # A nested protocol of another file that could not be read may be played by any role.
    unknown = (name for name, file in unit.node_files.items() if file.use is not None)
    if any(name not in unit.moves or not unit.moves[name].inner for name in unknown):
        for name in unit.role_names:
            note(name, "use")
    return found


def _check_program(unit: Unit, path: KeyPath, file: RoleFile) -> None:
    if file.tools and file.check is not None:
        unit.add((*path, "check"), "a role is either a toolbox or a checker: make two roles", key=True)
    unit.refuse_keys(path, ("count", "argues", "hears", "opening"), "the role is a program")
    specs: list[tuple[KeyPath, str, Callable[[str], Any]]] = [
        ((*path, "tools", index), spec, TOOLS.check) for index, spec in enumerate(file.tools)
    ]
    if file.check is not None:
        specs.append(((*path, "check"), file.check, CHECKS.check))
    for place, spec, check in specs:
        try:
            check(spec)
        except UserError as error:
            unit.add(place, str(error))
    kinds = [spec.partition(":")[0].strip() for spec in file.tools]
    for index, kind in enumerate(kinds):
        if kind in kinds[:index]:
            unit.add((*path, "tools", index), f"tool '{kind}' is listed twice: a call could mean either")


def _check_person(unit: Unit, path: KeyPath, name: str, file: RoleFile, uses: set[str]) -> None:
    if uses & {"judge", "by"}:
        if "answers" in unit.fields and "answers" not in file.sees:
            what = f"role '{name}' judges but does not see 'answers', so it could decide nothing: add it to 'sees'"
            unit.add(path, what, key=True)
        if file.hears == "quotes" and uses & {"speak", "critique", "revise", "human"}:
            what = "who speaks is told whole turns, so it cannot hear quotes only: remove it, or let another role speak"
            unit.add((*path, "hears"), what, key=True)
        if _only_judges(uses):
            unit.refuse_keys(path, ("argues", "opening"), "a judge argues nothing and brings its own instructions")
    elif "use" not in uses and unit.document.has((*path, "hears")):
        what = "only a judge chooses what it hears: remove it, or use 'to' at the nodes"
        unit.add((*path, "hears"), what, key=True)
    for role in unit.roles.get(name, ()):
        check_opening(unit, path, role, file)


def _only_judges(uses: set[str]) -> bool:
    """The role has no say, here or in a nested protocol."""
    return uses <= {"judge", "by"}


def _check_seats(unit: Unit, judges: set[str]) -> None:
    seats: dict[int, str] = {}
    for name, file in unit.role_files.items():
        for role in () if file.tools or file.check is not None or name in judges else unit.roles.get(name, ()):
            path: KeyPath = ("roles", name, "argues")
            if role.argues is None:
                continue
            if role.argues in seats:
                unit.add(path, f"seat {role.argues} is taken by role '{seats[role.argues]}'")
                break
            seats[role.argues] = role.name.rpartition(".")[2]
            if not unit.fields.get("answers"):
                unit.add(path, "a role can argue only if 'fields' lists 'answers'")
                break
    if unit.sound:
        for seat, name in seats.items():
            if seat >= len(seats):
                group = name if name in unit.role_files else name.rpartition("-")[0]
                what = f"seats count from 0 without a gap, so {seat} is too high"
                unit.add(("roles", group, "argues"), what)
