"""What a node is about: ``of``, ``vote``, ``select`` and ``reads``."""

from __future__ import annotations

from collections.abc import Sequence

from arena.protocols.compiler.reading import hearers, reaches, unread
from arena.protocols.compiler.references import Ref, find_nodes, listed
from arena.protocols.compiler.scope import Compilation, Move
from arena.protocols.documents import KeyPath
from arena.protocols.errors import suggest
from arena.protocols.graph import Role

__all__ = [
    "about_many",
    "about_of",
    "check_about",
    "check_reader",
    "check_selected",
    "find_revisions",
    "read_reads",
    "targets",
    "tells_result",
]


def targets(move: Move, names: str | list[str] | None) -> list[Ref]:
    """The nodes of a list of names, without what is no node (which is reported elsewhere)."""
    return [ref for ref in (find_nodes(move.unit, name) for name in listed(names)) if ref and ref.move.kind]


def about_of(move: Move, index: int) -> tuple[str, ...]:
    """Nodes that the ``index``-th node of a move is about."""
    names: list[str] = []
    for ref in targets(move, [*listed(move.file.of), *listed(move.file.vote), *listed(move.file.select)]):
        names += [ref.names[index]] if _pairwise(move, ref) else ref.names
    return tuple(dict.fromkeys(names))


def about_many(move: Move) -> bool:
    """Whether ``of`` means several nodes, be it only one of them."""
    refs = targets(move, move.file.of)
    return len(refs) > 1 or any(ref.many and not _pairwise(move, ref) for ref in refs)


def _pairwise(move: Move, ref: Ref) -> bool:
    """Number i is about number i: of the same counted role, or a program that is as many nodes as what it is about."""
    if not move.counted or not ref.many or len(ref.names) != len(move.names):
        return False
    same = bool(ref.move.roles) and bool(move.roles) and ref.move.roles[0].group == move.roles[0].group
    return same or move.kind in ("tool", "verify", "revise")


def check_about(move: Move) -> None:
    """What is named exists, says something, and can have run."""
    kind = str(move.kind)
    if kind in ("critique", "revise", "tool", "verify") and move.file.of is None and move.file.run is None:
        way_out = ", or say what it runs: 'run: TOOL'" if kind == "tool" else ""
        move.unit.add(move.path, f"a node with '{kind}' is about another: write 'of: NODE'{way_out}", key=True)
    for key in ("of", "vote", "select"):
        if getattr(move.file, key) == []:
            move.unit.add((*move.path, key), "the list is empty: name a node")
        for path, text in _places(move, key):
            _check_target(move, key, path, text)
    if kind in ("revise", "tool", "verify") and len(names := about_of(move, 0)) > 1:
        move.unit.add((*move.path, "of"), f"'{kind}' is about one node; these are {len(names)}")


def _places(move: Move, key: str) -> list[tuple[KeyPath, str]]:
    """The names under a key, each with its place."""
    written, path = getattr(move.file, key), (*move.path, key)
    if isinstance(written, str):
        return [(path, written)]
    names = [((*path, index), name) for index, name in enumerate(written or ())]
    for index, (place, name) in enumerate(names):
        if name in [earlier for _, earlier in names[:index]]:
            move.unit.add(place, f"'{name}' is named twice")
    return names


def _check_target(move: Move, key: str, path: KeyPath, text: str) -> None:
    ref = find_nodes(move.unit, text)
    what = ""
    if ref is None:
        what = f"'{text}' is not a node of this protocol.{suggest(text, move.unit.moves)}"
    elif ref.move.kind is None and not ref.move.empty:
        what = f"'{text}' is a nested protocol: name one of its nodes, as {text}.NODE"
    elif ref.move is move:
        what = f"'{text}' cannot be about itself"
    elif ref.move.kind == "judge" and key != "vote":
        what = f"'{text}' judges and says nothing: name a node with turns"
    elif ref.move.kind == "compute" and ref.move.file.say is None:
        what = f"'{text}' says nothing: give it 'say', or name another node"
    elif not ref.names and key == "of":
        what = f"'{text}' never runs with these params, so there is nothing to be about"
    elif ref.names and not move.unit.work.before(ref.names, move.names):
        what = f"'{text}' can only run later, so there is nothing to be about"
    if what and (ref is not None or text not in move.unit.node_names):
        move.unit.add(path, what)


def check_reader(move: Move, role: Role, about: Sequence[str]) -> None:
    """Who criticises or revises must have read it; who reads a program's result must have read what it ran on."""
    for text in listed(move.file.of):
        ref = find_nodes(move.unit, text)
        if ref is None or ref.move.kind is None:
            continue
        own, path = Ref(ref.moves, tuple(name for name in ref.names if name in about)), (*move.path, "of")
        if move.kind in ("critique", "revise") and (other := unread(own, role.seat, move.names)):
            group = role.group.rpartition(".")[2]
            shown = text if other in own.names else other
            revises = "" if other in own.names else f", which revises '{text}'"
            move.unit.add(path, f"role '{group}' does not read '{shown}'{revises}: set nodes.{shown}.to")
        elif move.kind in ("tool", "verify") and tells_result(move):
            blind = ((seat, unread(own, seat, move.names)) for seat in hearers(move.unit, move))
            seat, other = next(((seat, other) for seat, other in blind if other), ("", None))
            if other:
                what = (
                    f"the result would show '{text if other in own.names else other}' to role '{seat}', which does not "
                    f"read it: set nodes.{move.name}.to, or write what is told with 'say'"
                )
                move.unit.add(path, what)


def check_selected(move: Move) -> None:
    """Who reads a selection is told what was picked, and so must read all that it is picked from."""
    for text in listed(move.file.select):
        ref = find_nodes(move.unit, text)
        if ref is None or ref.move.kind is None:
            continue
        for seat in hearers(move.unit, move):
            if other := unread(ref, seat, move.names):
                what = f"it would show '{other}' to role '{seat}', which does not read it"
                way_out = f"set nodes.{move.name}.to or nodes.{other}.to"
                move.unit.add((*move.path, "select"), f"{what}: {way_out}")
                break


def find_revisions(work: Compilation) -> None:
    """Take in which nodes revise which."""
    for unit in work.units:
        for move in unit.live_moves():
            for index, name in enumerate(move.names if move.kind == "revise" else ()):
                work.revising[name] = move
                for target in about_of(move, index):
                    work.revisions.setdefault(target, set()).add(name)


def tells_result(move: Move) -> bool:
    """Whether readers are told what the program said, which may show what it ran on: without ``say``, or by it."""
    template = move.unit.template((*move.path, "say"), move.file.say)
    return move.file.say is None or (template is not None and "text" in template.names)


def read_reads(move: Move) -> tuple[str, ...] | None:
    """Nodes whose turns a judge reads; None: all."""
    unit, names = move.unit, list[str]()
    if move.file.reads is None:
        return None
    for path, text in _places(move, "reads"):
        ref = find_nodes(unit, text)
        if ref is None:
            if text not in unit.node_names:
                unit.add(path, f"'{text}' is not a node of this protocol.{suggest(text, unit.moves)}")
        elif ref.move.kind == "judge":
            unit.add(path, f"'{text}' judges and says nothing to read")
        elif ref.move.kind is None:
            names += [name for use in ref.moves for inner in use.inner for name in inner.all_names()]
        else:
            blind = [role for role in move.roles if not reaches(ref, role.seat)]
            if blind:
                unit.add(path, f"role '{blind[0].name}' does not read '{text}': set nodes.{text}.to")
            names += ref.names
    return tuple(dict.fromkeys(names))
