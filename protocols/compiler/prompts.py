"""Non-leakage: what a template may show to those who read it.

A template of a role may name the task fields that the role sees, params, what is drawn for it, and nodes whose turns
its seat reads. Whatever else could carry a field to a reader is followed too: fields of a nested protocol to what
they are made from, computed numbers to what they may be equal to, a message that shows cues or answers to everyone
who hears it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from arena.protocols.compiler.given import BASE, gives, unknown_field
from arena.protocols.compiler.reading import hearers, hidden, may_see
from arena.protocols.compiler.references import Ref, find_key, find_nodes, listed, node_named
from arena.protocols.compiler.scope import Move, Unit
from arena.protocols.compiler.settings import MESSAGE_NAMES, TURN_NAMES
from arena.protocols.compiler.shapes import about_shape, nested_shape, node_shape
from arena.protocols.compiler.targets import about_of, targets, tells_result
from arena.protocols.documents import KeyPath
from arena.protocols.errors import suggest
from arena.protocols.graph import Role
from arena.protocols.schema import ProtocolFile, RoleFile
from arena.protocols.templates import Template, name_offset

__all__ = [
    "check_binding",
    "check_given",
    "check_message",
    "check_opening",
    "check_prompt",
    "check_result",
    "check_say",
    "own_name",
    "read_message",
]


def own_name(role: Role) -> str:
    """The role as its file calls it."""
    return role.group.rpartition(".")[2]


def check_opening(unit: Unit, path: KeyPath, role: Role, file: RoleFile) -> None:
    """An opening is shown before anything was said: it may name what the role sees, and nothing that happens later."""
    if role.opening is None:
        return
    for name in sorted(role.opening.names):
        what = _common(unit, role, name)
        if what == "" and name == "round":
            what = "an opening is shown once, so it knows no 'round': use it in a prompt"
        elif what is None and node_named(unit, name):
            what = f"'{name}' is a node, and an opening is shown before it acts: show it in a prompt"
        _blame(unit, (*path, "opening"), role.opening, name, _unknown(unit, role, name) if what is None else what)


def check_prompt(unit: Unit, path: KeyPath, template: Template, role: Role, move: Move) -> None:
    """A prompt or cue of a node.

    Args:
        unit: whose file it stands in.
        path: where.
        template: what is checked.
        role: who is shown it.
        move: the node.
    """
    for name in sorted(template.names):
        members = _members(template, name)
        what = "" if name in (move.file.draw or {}) else _common(unit, role, name)
        if name == "answer" and what == "" and any(len(path) > 1 for path in members):
            what = "'answer' is the answer that the role argues, a text: give the node of that name another one"
        if name == "of":
            what = _about(role, move, members) or about_shape(move, template)
        elif name == "tools":
            calls = move.file.output is not None and move.file.output.call is not None
            what = "" if calls else "'tools' lists what can be called; this node has no 'output: {call: ...}'"
        elif what is None and node_named(unit, name):
            what = _first(_node(unit, role, path, move) for path in members) or node_shape(unit, template, name)
        _blame(unit, path, template, name, _unknown(unit, role, name, move) if what is None else what)


def _common(unit: Unit, role: Role, name: str) -> str | None:
    """Why a role may not be shown a name that has nothing to do with nodes; "" if it may, None if the name is none."""
    own = own_name(role)
    add = f"add it to roles.{own}.sees or do not show it here"
    if name in unit.params or name in unit.lists or name in role.sees or name in ("role", "round"):
        return ""
    if name in ("number", "count"):
        return "" if role.count else f"'{name}' is for roles with 'count', which role '{own}' is not"
    if name == "answer" and (role.argues is not None or "answer" not in unit.keys):
        argues = role.argues is not None
        return "" if argues else f"role '{own}' argues no answer, so 'answer' is empty: remove it"
    if name in ("other", "sides"):
        if name == "other" and (role.argues is None or _seats(unit) != 2):
            return "'other' is the answer of the other of two roles that argue; there are no two here"
        sees = "answers" in role.sees
        return "" if sees else f"'{name}' shows 'answers', which role '{own}' does not see: {add}"
    if name in unit.fields:
        return f"role '{own}' does not see field '{name}': {add}"
    return None


def _seats(unit: Unit) -> int:
    return sum(role.argues is not None for roles in unit.roles.values() for role in roles)


def _unknown(unit: Unit, role: Role, name: str, move: Move | None = None) -> str:
    known = {*role.sees, *unit.params, *unit.lists, *TURN_NAMES, *unit.keys, *((move.file.draw or {}) if move else ())}
    return f"'{name}' is neither a field that role '{own_name(role)}' sees nor a param.{suggest(name, known)}"


def _node(unit: Unit, role: Role, path: tuple[str, ...], move: Move) -> str:
    found = find_key(unit, path)
    if found is None:
        return f"'{'.'.join(path)}' is not a node of this protocol"
    ref, part = found
    names = move.names or [name for inner in move.inner for name in inner.all_names()]
    if ref.names and not unit.work.before(ref.names, names):
        return f"'{'.'.join(path)}' shows nothing here: its node can only run later"
    return _shown(role, ref, part, path, names)


def _shown(role: Role, ref: Ref, part: str, path: tuple[str, ...], at: Collection[str]) -> str:
    shown = ".".join(path)
    node = ".".join(path[: path.index(part, 1)]) if part else shown
    if ref.move.empty:
        return ""  # ruled out by the params: it is shown as a node that has not run
    if ref.move.kind is None:
        return (
            unknown_field(ref, part, node) or ""
            if part not in ("", "visits")
            else nested_shape(ref.move, node, many=ref.many)
        )
    if not ref.names:
        return ""
    if part and part != "role" and (what := unknown_field(ref, part, node)):
        return what
    if why := hidden(role.seat, ref, "text" if part == "role" and ref.move.kind != "judge" else part, at=at):
        return f"role '{own_name(role)}' may not be shown '{shown}': {why}"
    return ""


def _about(role: Role, move: Move, members: Iterable[tuple[str, ...]]) -> str:
    if move.kind not in ("critique", "revise"):
        return "'of' is what a critique or revision is about; this node is neither"
    own = [each.seat for each in move.roles].index(role.seat)
    about = set(about_of(move, own))
    for ref in targets(move, move.file.of):
        ref = Ref(ref.moves, tuple(name for name in ref.names if name in about))  # noqa: PLW2901
        for path in members:
            if what := _shown(role, ref, path[1] if len(path) > 1 else "", path, move.names):
                return what
    return ""


def _members(template: Template, name: str) -> list[tuple[str, ...]]:
    return sorted(path for path in template.members if path[0] == name) or [(name,)]


def _first(reasons: Iterable[str]) -> str:
    return next((reason for reason in reasons if reason), "")


def _blame(unit: Unit, path: KeyPath, template: Template, name: str, what: str) -> None:
    if what:
        unit.add(path, what, offset=name_offset(template.source, name))


# -- what programs are given, and what programs, votes and computations say


def check_given(move: Move, path: KeyPath, template: Template) -> None:
    """What a program is given: task fields that its role sees, and turns, if those who read its result read them too.

    Args:
        move: the node at which it runs.
        path: of the template.
        template: what is checked.
    """
    unit, role = move.unit, move.roles[0]
    for name in sorted(template.names):
        what = _common(unit, role, name)
        if what is None and node_named(unit, name):
            members = _members(template, name)
            what = _first(_given_node(move, member) for member in members) or node_shape(unit, template, name)
        _blame(unit, path, template, name, _unknown(unit, role, name) if what is None else what)


def _given_node(move: Move, path: tuple[str, ...]) -> str:
    unit, shown = move.unit, ".".join(path)
    found = find_key(unit, path)
    if found is None:
        return f"'{shown}' is not a node of this protocol"
    ref, part = found
    if what := _field_of(unit, path):
        return what
    if ref.names and not unit.work.before(ref.names, move.names):
        return f"'{shown}' is empty here: its node can only run later"
    if ref.move is move:
        return f"'{shown}' is what this node gives itself: name the nodes before it"
    for seat in hearers(unit, move) if ref.names and tells_result(move) else ():
        if why := hidden(seat, ref, part, at=move.names):
            way_out = f"set nodes.{move.name}.to, or write what is told with 'say'"
            return f"the result may show '{shown}' to role '{seat}': {why}: {way_out}"
    return ""


def check_say(unit: Unit, move: Move, template: Template) -> None:
    """The template of a result may name the node's own fields; who reads it must be allowed to."""
    ref = Ref([move], move.names)
    fields = {name: given for name, given in gives(ref).items() if name not in BASE}
    known = {*fields, *unit.params, *unit.lists, *(() if move.kind == "compute" else ("text",))}
    path: KeyPath = (*move.path, "say")
    for name in sorted(template.names):
        if name not in known:
            what = f"'{name}' is not a field of this node, which may show only its own.{suggest(name, known)}"
            _blame(unit, path, template, name, what)
        elif name in fields and (name in unit.params or name in unit.lists):
            sort = "param" if name in unit.params else "list"
            what = f"'{name}' means both a {sort} and a field of the node: rename the {sort}"
            _blame(unit, path, template, name, what)
        elif name in fields:
            for seat in hearers(unit, move):
                if why := hidden(seat, ref, name):
                    _blame(
                        unit, path, template, name, f"'{name}' is shown to '{seat}': {why}: set nodes.{move.name}.to"
                    )
                    break


def check_result(unit: Unit, move: Move) -> None:
    """What a vote says where no ``say`` words it: its readers are told the choice."""
    ref = Ref([move], move.names)
    field = "value" if "value" in gives(ref) else "choice"
    for seat in hearers(unit, move):
        if why := hidden(seat, ref, field):
            what = f"the result is told to role '{seat}': {why}: word it by 'say', or set nodes.{move.name}.to"
            unit.add((*move.path, "vote"), what)
            break


# -- messages


def read_message(unit: Unit) -> None:
    """Compile the file's ``message``."""
    source = unit.document.get(("message",))
    template = unit.template(("message",), source) if isinstance(source, str) else None
    unit.message = template or unit.work.template(ProtocolFile.model_fields["message"].default)


def check_message(unit: Unit) -> None:
    """A message shows cues and answers to whoever hears a turn."""
    template, path = unit.message, ("message",)
    for name in sorted(template.names - set(MESSAGE_NAMES)):
        what = f"'{name}' is not a name of messages, which may show only {', '.join(MESSAGE_NAMES)}"
        _blame(unit, path, template, name, what)
    for move in unit.live_moves():
        if move.kind in (None, "judge") or not template.names & {"answer", "cue"}:
            continue
        for seat in hearers(unit, move):
            for name, shown, why in _shown_by_message(unit, move, seat):
                what = (
                    f"'{name}' shows '{shown}' of node '{move.name}' to role '{seat}', which {why}: "
                    f"add it to roles.{seat}.sees, or set nodes.{move.name}.to"
                )
                _blame(unit, path, template, name, what)


def _shown_by_message(unit: Unit, move: Move, seat: str) -> Iterable[tuple[str, str, str]]:
    """What the message of a turn shows that a seat may not see: name of the message, what it shows, why not."""
    names = unit.message.names
    argues = move.kind == "select" or any(role.argues is not None for role in move.roles)
    if "answer" in names and argues and not may_see(unit, seat, "answers"):
        yield "answer", "answers", "does not see it"
    cue = move.file.cue
    if "cue" not in names or cue is None:
        return
    template = unit.template((*move.path, "cue"), cue)
    argues = any(role.argues is not None for role in move.roles)
    for path in sorted(template.members) if template else ():
        name = (move.file.draw or {}).get(path[0], path[0])
        own = name in ("other", "sides") or (name == "answer" and (argues or "answer" not in unit.keys))
        field = "answers" if own else name
        if field in unit.fields:
            if not may_see(unit, seat, field):
                yield "cue", field, "does not see it"
        elif path[0] == "of":
            targets = [find_nodes(unit, target) for target in listed(move.file.of)]
            if any(ref and hidden(seat, ref, path[1] if len(path) > 1 else "", at=move.names) for ref in targets):
                yield "cue", "of", "does not read it"
        elif node_named(unit, path[0]) and (found := find_key(unit, path)) and hidden(seat, *found, at=move.names):
            yield "cue", ".".join(path), "does not read it"


# -- fields of nested protocols


def check_binding(move: Move, inner: Unit, name: str, path: KeyPath, template: Template, outer: Iterable[Role]) -> None:
    """A field of a nested protocol may be made only from what everyone who will see it may see.

    Args:
        move: the ``use`` node.
        inner: what it unfolds to.
        name: the field.
        path: of the template.
        template: how it is made.
        outer: roles of the file around that will see it.
    """
    unit = move.unit
    for part in sorted(template.names):
        if part in unit.params or part in unit.lists:
            continue
        if part in ("number", "count"):
            what = "" if inner.number else f"'{part}' is for a nested protocol that a counted role plays"
        elif part in TURN_NAMES and part not in unit.keys:
            what = f"'{part}' belongs to one role, but '{name}' is made once for all: use fields, params and nodes"
        elif part not in unit.fields and not node_named(unit, part):
            known = {*unit.fields, *unit.keys, *unit.params, *unit.lists}
            what = f"'{part}' is neither a field, a node nor a param.{suggest(part, known)}"
        elif part in unit.fields:
            blind = [role for role in outer if part not in role.sees]
            own = own_name(blind[0]) if blind else ""
            shows = f"'{name}' shows '{part}' to role '{own}', which does not see it: add it to roles.{own}.sees"
            what = shows if blind else ""
        else:
            members = _members(template, part)
            unknown = _first(_field_of(unit, member) for member in members)
            hidden_from = (_node(unit, role, member, move) for role in outer for member in members)
            what = unknown or _first(hidden_from) or node_shape(unit, template, part)
        if part in unit.fields:
            unit.used_fields.add(part)
        _blame(unit, path, template, part, what)


def _field_of(unit: Unit, path: tuple[str, ...]) -> str:
    """What is wrong with the name of a field of a node, whoever is shown it."""
    found = find_key(unit, path)
    if found is None:
        return f"'{'.'.join(path)}' is not a node of this protocol"
    ref, part = found
    node = ".".join(path[: path.index(part, 1)]) if part else ""
    return unknown_field(ref, part, node) or "" if part and part != "role" and ref.names else ""
