"""The shape of a protocol file: what may be written.

What it means together (names, reachability, leaks) is checked in `loader` and `checks`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

__all__ = ["EdgeFile", "LimitFile", "NodeFile", "ProtocolFile", "QuoteFile", "RewardsFile", "RoleFile"]

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*$", max_length=60)]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\??$", max_length=60)]


def _shape(value: Any) -> str:
    return "mapping" if isinstance(value, dict | BaseModel) else "plain"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


class RoleFile(_File):
    """A seat in the protocol."""

    argues: int | None = Field(None, ge=0)
    """Seat: the role argues this entry of the episode's sides, counted from 0."""
    sees: list[FieldName] = []
    """Task fields that the role may be shown."""
    hears: Literal["turns", "quotes"] = "turns"
    """What a judge is given: whole turns, or good quotes only."""
    opening: str | None = None
    """Template of the role's instructions, shown once, first."""


class QuoteFile(_File):
    """What a turn is expected to quote."""

    field: FieldName
    """Task field that is quoted."""
    form: Literal["tagged", "whole"] = "tagged"
    """``tagged``: passages in <quote>...</quote>; ``whole``: the turn is one quote."""
    once: bool = False
    """A passage counts only the first time in an episode."""


class LimitFile(_File):
    """Bounds of a turn, enforced by the engine. Each is a whole number or an expression over params."""

    words: int | str | None = None
    """More words are cut off."""
    tokens: int | str | None = None
    """No more tokens are sampled."""


class NodeFile(_File):
    """One kind of move: either ``speak`` or ``judge``."""

    speak: Name | None = None
    """Role that speaks."""
    judge: Name | None = None
    """Role that judges what was said so far."""
    prompt: str | None = None
    """Template of what the speaker is asked."""
    cue: str | None = None
    """Template of the words put at the beginning of the speaker's turn."""
    quote: (
        Annotated[Annotated[FieldName, Tag("plain")] | Annotated[QuoteFile, Tag("mapping")], Discriminator(_shape)]
        | None
    ) = None
    """Field that the turn quotes, or a mapping with ``field``, ``form`` and ``once``."""
    limit: LimitFile | None = None
    """Bounds in words and tokens."""
    to: list[Name] | None = None
    """Roles that read the turn; absent: everybody."""


class EdgeFile(_File):
    """A guarded or plain edge; plain ones are shorter as ``a & b -> c``."""

    from_: str = Field(alias="from")
    """Nodes that must have finished, joined by ``&``."""
    to: str
    """Nodes that act next, joined by ``&``."""
    times: int | str | None = None
    """How often the edge may be taken in an episode: a whole number or an expression over params."""
    when: bool | str | None = None
    """Expression over params, ``round`` and ``visits`` that must hold."""


class RewardsFile(_File):
    """What a verdict is worth to the roles that argue."""

    verdict: Name
    """Judge node whose verdict pays."""
    value: float | str
    """Expression over ``margin``, ``p``, ``won``, ``correct`` and params."""
    pay: str = "end"
    """``each_turn``, ``end``, or a param that holds one of them."""
    bad_quote: float | str = 0.0
    """Paid for each bad quote: a number or an expression over params."""


class ProtocolFile(_File):
    """A protocol."""

    name: Name
    """How the protocol is called in runs and tables."""
    version: int = Field(1, ge=1)
    """Counts changes that matter."""
    summary: str = ""
    """One line for listings."""
    paper: str = ""
    """Where the protocol comes from."""
    params: dict[str, int | float | bool | str] = {}
    """Name -> default value; overridable when the protocol is loaded."""
    fields: list[FieldName] = Field(min_length=1)
    """What a task must bring; a trailing '?' marks an optional field."""
    roles: dict[str, RoleFile] = Field(min_length=1)
    """Role name -> seat."""
    message: str = "{{ role }}: {{ text }}"
    """Template of how a turn reads to the other roles."""
    nodes: dict[str, NodeFile] = Field(min_length=1)
    """Node name -> move."""
    edges: list[
        Annotated[Union[Annotated[str, Tag("plain")], Annotated[EdgeFile, Tag("mapping")]], Discriminator(_shape)]  # noqa: UP007
    ] = Field(min_length=1)
    """Chains such as ``start -> a & b -> judge -> end``, and guarded edges as mappings."""
    rewards: RewardsFile | None = None
    """Needed for training only."""
