"""Who rates candidates, and the expression that is largest for the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arena.protocols.compiler.given import UNKNOWN
from arena.protocols.compiler.roles import find_roles
from arena.protocols.compiler.scope import Unit
from arena.protocols.compiler.values import expression, try_number
from arena.protocols.documents import KeyPath
from arena.protocols.expressions import Expression
from arena.protocols.graph import Role

__all__ = ["read_rater", "read_value"]

_JUDGED: Mapping[str, Any] = {"margin": 0.8, "p": 0.7, "won": 1, "score": 0.6}
_CHECKED: Mapping[str, Any] = {"passed": True, "score": 0.5}


def read_rater(unit: Unit, path: KeyPath, name: str | None) -> Role | None:
    """The judge or checker behind ``by``."""
    if name is None:
        return None
    roles = find_roles(unit, path, name)
    if len(roles) > 1:
        unit.add(path, f"'{name}' are {len(roles)} seats: name one, such as '{name}-1'")
    elif roles and roles[0].tools:
        unit.add(path, f"role '{name}' is a toolbox and rates nothing: name a judge or a checker")
    return roles[0] if roles else None


def read_value(
    unit: Unit,
    path: KeyPath,
    source: float | str | None,
    by: Role | None,
    plain: Mapping[str, Any],
    *,
    argues: bool,
) -> Expression | None:
    """The expression that is largest for the best; who rates must be used, and what is used must be rated.

    Args:
        unit: whose file it stands in.
        path: where.
        source: as written.
        by: who rates.
        plain: names of the candidates themselves, each with a value that it may have.
        argues: the candidates argue an answer.
    """
    if source is None:
        return None
    rated: Mapping[str, Any] = {} if by is None else _JUDGED if by.check is None else _CHECKED
    names = {**plain, **rated}
    every = {**dict.fromkeys((*_JUDGED, *_CHECKED), UNKNOWN), **names}
    compiled = expression(unit, path, source, every, nodes=False)
    if compiled is None:
        return None
    for name in sorted(compiled.names - names.keys()):
        givers = [who for who, names in (("judge", _JUDGED), ("checker", _CHECKED)) if name in names]
        unit.add(path, f"'{name}' is given by a {' or a '.join(givers)}: name one with 'by'")
        return None
    used = compiled.names & rated.keys()
    if by is not None and not used:
        what = f"'by' does nothing: the value uses none of {', '.join(rated)}"
        unit.add((*path[:-1], "by"), what, key=True)
    if rated is _JUDGED and used - {"score"} and not argues:
        what = "'margin', 'p' and 'won' are of the answer that is argued, and the speaker argues none: add 'argues'"
        unit.add(path, what)
    if compiled.names:
        try_number(unit, path, compiled, names)
    else:
        unit.add(path, "the value is the same for all, so the first would always be taken")
    return compiled
