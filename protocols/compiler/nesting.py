"""What a ``use`` node unfolds to: another file in this place, once, or once for each seat of the counted role that
plays it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from arena.protocols.compiler.prompts import check_binding, own_name
from arena.protocols.compiler.scope import MAX_LEVELS, MAX_NODES, Move, Unit
from arena.protocols.compiler.settings import convert
from arena.protocols.compiler.values import constant
from arena.protocols.composer import spell
from arena.protocols.documents import KeyPath
from arena.protocols.errors import ConfigError, SourceError, suggest
from arena.protocols.graph import Role
from arena.protocols.schema import NodeFile, ProtocolFile, RoleFile

__all__ = ["bind_fields", "check_nested", "check_played", "overrides", "unfold"]


def unfold(move: Move) -> None:
    """Make the units of a ``use`` node, before they are read; none, with a fault, if the file cannot be used."""
    unit, path = move.unit, (*move.path, "use")
    assert move.file.use is not None
    if len(unit.chain()) > MAX_LEVELS:
        what = f"protocols are nested deeper than {MAX_LEVELS} levels: let a condition over params end the recursion"
        unit.add(path, what)
        unit.work.raise_faults()
    unit.work.nodes += 1
    if unit.work.nodes > MAX_NODES:
        unit.add(path, f"the protocol unfolds to more than {MAX_NODES} nodes")
        unit.work.raise_faults()
    try:
        document = unit.work.sources.read(move.file.use, unit.document, path)
    except SourceError as error:
        for fault in error.faults:
            unit.report(fault)
        unit.sound = False
        return
    whole, faults = unit.work.part(document, ProtocolFile)
    if whole is None:
        for fault in faults:
            unit.report(replace(fault, what=f"{fault.what} (used by {spell(move.path)})"))
        unit.sound = False
        return
    players, unplayed = _players(move, whole.roles), _unplayed(move, whole.roles)
    if players is None:
        return
    move.counted = players[1] > 0
    for number in range(1, players[1] + 1) if move.counted else (0,):
        name = f"{move.name}-{number}" if number else move.name
        inner = Unit(unit.work, document, unit.full(name), parent=move, number=number)
        inner.outer = _seats(whole.roles, players[0], number)
        inner.unplayed = unplayed
        move.inner = (*move.inner, inner)


def check_played(move: Move) -> None:
    """Somebody plays all roles of the nested file that its nodes need, with the params that it is given."""
    unit = move.unit
    needed = {name for inner in move.inner for each in inner.live_moves() for name in acting(each.file)}
    needed |= {played for inner in move.inner for each in inner.live_moves() for played in _passed_on(each)}
    missing = [name for name in (move.inner[0].unplayed if move.inner else ()) if name in needed]
    for name in missing:
        what = f"nobody plays role '{name}' of '{move.file.use}': write roles: {{{name}: ROLE}}"
        unit.add(move.path, what, key=True)
    if missing:  # what follows from it is not worth telling
        unit.work.units = [each for each in unit.work.units if not set(each.chain()) & set(move.inner)]
        move.inner, unit.sound = (), False


def acting(file: NodeFile) -> list[str]:
    """Names of the roles that a node names: who acts, and who rates."""
    names = [file.speak, file.critique, file.revise, file.human, file.judge, file.by]
    names.append(file.best_of.by if file.best_of else None)
    return [found for name in names if name is not None for found in {name, name.rpartition("-")[0] or name}]


def _passed_on(move: Move) -> list[str]:
    """Roles that play those of a file nested in the nested one."""
    players = [role for inner in move.inner for role in inner.outer.values()]
    return [role.group.rpartition(".")[2] for role in players]


def overrides(inner: Unit) -> dict[str, Any]:
    """The params that ``with`` gives to a nested protocol."""
    move = inner.parent
    assert move is not None
    found: dict[str, Any] = {}
    declared = inner.document.get(("params",)) or {}
    for name, source in move.file.with_.items():
        path: KeyPath = (*move.path, "with", name)
        if name not in declared:
            what = f"'{name}' is not a param of '{move.file.use}'.{suggest(name, declared)}"
            move.unit.add(path, what, key=True)
            continue
        # A number, or the value of a text that is an expression over params.
        wants_text = isinstance(declared[name], str)
        value = constant(move.unit, path, source, text=wants_text) if isinstance(source, str) else source
        if value is None:
            continue
        try:
            found[name] = convert(name, value, declared[name])
        except ConfigError as error:
            move.unit.add(path, str(error))
    return found


# -- who plays


def _players(move: Move, inner: dict[str, RoleFile]) -> tuple[dict[str, tuple[Role, ...]], int] | None:
    """Who plays each role of the nested file, and how often it is unfolded (0: once, by no counted role)."""
    unit = move.unit
    found: dict[str, tuple[Role, ...]] = {}
    good = True
    for name, played in move.file.roles.items():
        path: KeyPath = (*move.path, "roles", name)
        if name not in inner:
            unit.add(path, f"'{name}' is not a role of '{move.file.use}'.{suggest(name, inner)}", key=True)
            good = False
        elif inner[name].tools or inner[name].check is not None:
            unit.add(path, f"role '{name}' of '{move.file.use}' is a program and plays itself: remove it", key=True)
            good = False
        elif played not in unit.role_names and not _member(unit, played):
            unit.add(path, f"'{played}' is not a role of this protocol.{suggest(played, unit.role_names)}")
            good = False
    for name, file in inner.items():
        if file.tools or file.check is not None:
            continue
        played = move.file.roles.get(name, name)
        roles = unit.roles.get(played) or _member(unit, played)
        if not roles:
            good = good and name not in move.file.roles and name not in unit.role_names  # see `check_played`
        elif roles[0].tools or roles[0].check is not None:
            path = (*move.path, "roles", name) if name in move.file.roles else move.path
            unit.add(path, f"role '{played}' is a program and cannot play '{name}' of '{move.file.use}'")
            good = False
        else:
            found[name] = roles
    counts = {len(roles) for name, roles in found.items() if inner[name].count is None and _whole_group(unit, roles)}
    if len(counts) > 1:
        unit.add((*move.path, "use"), "it is played by counted roles with different counts: make them the same")
        return None
    return (found, counts.pop() if counts else 0) if good else None


def _unplayed(move: Move, inner: dict[str, RoleFile]) -> tuple[str, ...]:
    """Roles of the nested file that no role of the file around plays."""
    people = [name for name, file in inner.items() if not file.tools and file.check is None]
    return tuple(name for name in people if name not in move.file.roles and name not in move.unit.role_names)


def _whole_group(unit: Unit, roles: tuple[Role, ...]) -> bool:
    """Whether these are all seats of a counted role."""
    return roles[0].count > 0 and any(roles == group for group in unit.roles.values())


def _member(unit: Unit, name: str) -> tuple[Role, ...]:
    """One seat of a counted role: ``debater-2``."""
    return tuple(
        role for roles in unit.roles.values() for role in roles if role.number and role.name == unit.full(name)
    )


def _seats(files: dict[str, RoleFile], players: dict[str, tuple[Role, ...]], number: int) -> dict[str, Role]:
    """Name of each seat of the nested file -> who plays it."""
    found: dict[str, Role] = {}
    for name, roles in players.items():
        counted = files[name].count is not None
        if counted:
            for role in roles:
                found[f"{name}-{role.number or 1}"] = role
        else:
            found[name] = next((role for role in roles if role.number == number), roles[0]) if number else roles[0]
    return found


# -- what is seen


def bind_fields(inner: Unit) -> None:
    """Compile the templates of the fields that a ``use`` node gives, when the nested file's fields are known."""
    move = inner.parent
    assert move is not None
    unit = move.unit
    for name, written in move.file.fields.items():
        path: KeyPath = (*move.path, "fields", name)
        if name not in inner.fields:
            what = f"'{name}' is not a field of '{move.file.use}'.{suggest(name, inner.fields)}"
            unit.add(path, what, key=True)
            continue
        if name == "answers" and (isinstance(written, str) or len(written) < 2):
            unit.add(path, "'answers' is a list of two texts or more: ['...', '...']")
            continue
        sources = (
            [(path, written)] if isinstance(written, str) else [((*path, i), text) for i, text in enumerate(written)]
        )
        templates = [unit.template(place, text) for place, text in sources]
        if all(templates):
            inner.bound[name] = tuple(template for template in templates if template)
            one = inner.bound[name][0] if isinstance(written, str) else inner.bound[name]
            inner.scope.bound[name] = one
    for name, required in inner.fields.items():
        if name in move.file.fields:
            continue
        if name not in unit.fields:
            # A task may have a field of that name all the same, which this protocol shows to nobody.
            inner.scope.bound[name] = unit.work.template("")
            if required or name == "answers":
                what = f"'{move.file.use}' needs the field '{name}', which is none here: write fields: {{{name}: ...}}"
                unit.add(move.path, what, key=True)
        else:
            unit.used_fields.add(name)
            if required and not unit.fields[name]:
                lacks = f"'{move.file.use}' needs '{name}', which a task may lack here ('{name}?')"
                what = f"{lacks}: write fields: {{{name}: ...}}"
                unit.add(move.path, what, key=True)


def check_nested(inner: Unit) -> None:
    """A nested role may see a field only if who plays it may."""
    move = inner.parent
    assert move is not None
    unit = move.unit
    seen: dict[str, list[Role]] = {}
    for roles in inner.roles.values():
        for role in roles:
            outer = inner.outer.get(role.name.rpartition(".")[2])
            if outer is not None and outer.hears != role.hears:
                own = own_name(outer)
                what = (
                    f"role '{own_name(role)}' of '{move.file.use}' hears {role.hears}, but '{own}', which plays it, "
                    f"hears {outer.hears}: give both the same 'hears', or let another role play it"
                )
                unit.add((*move.path, "use"), what)
            for field in role.sees:
                if outer is not None:
                    seen.setdefault(field, []).append(outer)
                if outer is None or field in inner.bound or field not in unit.fields or field in outer.sees:
                    continue
                own = own_name(outer)
                what = (
                    f"role '{own_name(role)}' of '{move.file.use}' sees '{field}', but '{own}', which plays it, does "
                    f"not: add it to roles.{own}.sees, or give the field in 'fields'"
                )
                unit.add((*move.path, "use"), what)
    programs = {
        name for file in inner.role_files.values() if file.tools or file.check is not None for name in file.sees
    }
    for name, templates in inner.bound.items():
        path: KeyPath = (*move.path, "fields", name)
        if name not in seen and name not in programs and name != "answers":
            unit.add(path, f"no role of '{move.file.use}' sees '{name}': remove it", key=True)
        written = move.file.fields[name]
        for index, template in enumerate(templates):
            place = path if isinstance(written, str) else (*path, index)
            check_binding(move, inner, name, place, template, seen.get(name, ()))
