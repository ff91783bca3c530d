"""The shape of a protocol file: what may be written.

What it means together (names, reachability, leaks) is checked in `compiler` and `checks`. The docstrings become the
JSON Schema, which editors show while one types.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

__all__ = [
    "BestOfFile",
    "BudgetFile",
    "EdgeFile",
    "LimitFile",
    "NodeFile",
    "OutputFile",
    "ProtocolFile",
    "QuoteFile",
    "RewardFile",
    "RoleFile",
    "protocol_schema",
]

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*$", max_length=60)]
NodePath = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*(\.[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*)*$", max_length=200
    ),
]
"""A node, or ``USE.NODE`` for one of a nested protocol."""
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=60)]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\??$", max_length=60)]
Whole = int | str
"""A whole number, or an expression over params."""


def _shape(value: Any) -> str:
    if isinstance(value, dict | BaseModel):
        return "mapping"
    return "list" if isinstance(value, list | tuple) else "plain"


Nodes = Annotated[Annotated[NodePath, Tag("plain")] | Annotated[list[NodePath], Tag("list")], Discriminator(_shape)]
"""One node, or a list of nodes."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


class RoleFile(_File):
    """A seat in the protocol."""

    count: Whole | None = None
    """So many seats alike, named ROLE-1, ROLE-2, ...; whatever names the role means all of them."""
    argues: int | None = Field(None, ge=0)
    """The role argues this entry of the episode's sides, counted from 0; counted seats argue this one and those
    after."""
    sees: list[Variable] = []
    """Task fields that the role may be shown."""
    hears: Literal["turns", "quotes"] = "turns"
    """What a judge is given: whole turns, or good quotes only."""
    opening: str | None = None
    """Template of the role's instructions, shown once, first."""
    tools: list[str] = []
    """Makes the role a toolbox: specs of the programs that ``tool: ROLE`` runs (see ``arena ls tools``)."""
    check: str | None = None
    """Makes the role a checker: spec of the program that ``verify: ROLE`` runs (see ``arena ls checks``)."""


class QuoteFile(_File):
    """What a turn is expected to quote."""

    field: Variable
    """Task field that is quoted."""
    form: Literal["tagged", "whole"] = "tagged"
    """``tagged``: passages in <quote>...</quote>; ``whole``: the turn is one quote."""
    once: bool = False
    """A passage counts only the first time in an episode."""


class LimitFile(_File):
    """Bounds of a turn, enforced by the engine. Each is a whole number or an expression over params."""

    words: Whole | None = None
    """Most words of the visible text."""
    tokens: Whole | None = None
    """Most tokens of the visible text."""
    thinking: Whole | None = None
    """Most tokens of hidden thinking."""
    over: Literal["cut", "refuse"] = "cut"
    """``cut``: what is too much is cut off (status over_limit); ``refuse``: nobody reads a turn that is too long."""


class OutputFile(_File):
    """The form that a turn must have. Exactly one of ``choice``, ``regex``, ``json`` and ``call``."""

    choice: (
        Annotated[Annotated[Variable, Tag("plain")] | Annotated[list[str], Tag("list")], Discriminator(_shape)] | None
    ) = None
    """One of these texts, or of the texts in this task field (``answers``). Gives ``choice`` and ``index`` (from 0)."""
    regex: str | None = Field(None, max_length=1000)
    """A regular expression (RE2) that matches the whole; gives its named groups as texts."""
    json_: dict[str, Any] | None = Field(None, alias="json")
    """A JSON Schema of an object; gives its properties."""
    call: list[Name] | None = None
    """A call of one of these tools: {"tool": NAME, "arguments": {...}}. Gives ``tool`` and ``arguments``."""
    tag: Name | None = None
    """Only what stands in the last <TAG>...</TAG> is read; absent: the whole text, or <call>...</call> for a call."""
    optional: bool = False
    """A turn without the tag is fine; its fields are none."""


class BestOfFile(_File):
    """Several candidates for one turn, of which one is said."""

    n: Whole
    """How many candidates."""
    by: Name | None = None
    """Role that rates them: a judge (as if the candidate had been said) or a checker."""
    value: float | str
    """Expression that is largest for the best candidate: over ``margin``, ``p``, ``won`` and ``score`` (a judge),
    ``passed`` and ``score`` (a checker), ``words``, ``bad_quotes`` and the fields of its ``output``. The first of
    equals is taken."""


class NodeFile(_File):
    """One kind of move. Exactly one key says which, and by whom: see the first ones."""

    speak: Name | None = None
    """Role that speaks."""
    critique: Name | None = None
    """Role that criticises the last turns of the nodes in ``of``."""
    revise: Name | None = None
    """Role that writes the last turn of the node in ``of`` anew; whoever has not read the draft reads the revision
    only."""
    human: Name | None = None
    """Role that speaks and is a person, unless the lineup says otherwise."""
    judge: Name | None = None
    """Role that judges what was said so far."""
    tool: Name | None = None
    """Toolbox that runs the call made in the last turn of the node in ``of``, or by itself the tool in ``run``."""
    verify: Name | None = None
    """Checker that examines the last turn of the node in ``of``; gives ``passed`` and ``score``."""
    vote: Nodes | None = None
    """Nodes whose last turns are counted (or judge nodes, whose verdicts are combined)."""
    select: Nodes | None = None
    """Nodes of whose last turns the best is said again."""
    compute: dict[Variable, float | str] | None = None
    """Name -> expression over params, task fields and the fields of earlier turns; gives these numbers."""
    use: str | None = None
    """A protocol (library name, or a path beside this file) that is played here."""

    of: Nodes | None = None
    """What a critique, revision, tool or check is about."""
    run: Name | None = None
    """Tool that the toolbox runs with ``arguments``, whatever form the turns before it have."""
    arguments: dict[Variable, bool | int | float | str] = {}
    """Of ``run``: name -> template over task fields that the toolbox sees, params and ``NODE.field`` (what was said, as
    it was said); numbers and booleans stand for themselves."""
    prompt: str | None = None
    """Template of what the speaker is asked."""
    cue: str | None = None
    """Template of the words put at the beginning of the speaker's turn."""
    say: str | None = None
    """Template of how the result of a program, vote or computation reads, over its fields."""
    quote: (
        Annotated[Annotated[Variable, Tag("plain")] | Annotated[QuoteFile, Tag("mapping")], Discriminator(_shape)]
        | None
    ) = None
    """Field that the turn quotes, or a mapping with ``field``, ``form`` and ``once``."""
    limit: LimitFile | None = None
    """Bounds in words and tokens."""
    output: OutputFile | None = None
    """The form that the turn must have."""
    retries: Whole = 0
    """How often a turn that cannot be read is asked for again."""
    in_turn: bool = False
    """The seats of a role with ``count`` act one after the other, from the first to the last, and each hears those
    before it; otherwise all act at once. Edges lead to the first seat, and on from the last."""
    claims: bool = False
    """The chosen answer becomes the one that the role argues; a seat that held it, without a claim, takes the
    other's."""
    draw: dict[Variable, Variable] | None = None
    """Name -> list (of ``lists`` or a task field) of which one item is drawn for each turn; templates may show it."""
    best_of: BestOfFile | None = None
    """Several candidates for the turn, of which one is said."""
    to: (
        Annotated[
            Annotated[Literal["everyone", "self", "nobody"], Tag("plain")] | Annotated[list[Name], Tag("list")],
            Discriminator(_shape),
        ]
        | None
    ) = None
    """Who reads the turn: ``everyone``, a list of roles, ``self`` (only its speaker), or ``nobody`` (not even its
    speaker has it in mind later). At a ``use``: who reads its turns beside the roles that play it, instead of
    everyone."""
    reads: Nodes | None = None
    """Nodes whose turns a judge reads; absent: all."""
    count: str | None = None
    """Field that a vote counts; ``choice`` if absent."""
    rule: Literal["plurality", "majority", "unanimous", "mean"] = "plurality"
    """What decides a vote: most votes, more than half, all; ``mean`` averages numbers, or the verdicts of judges."""
    by: Name | None = None
    """Judge or checker that rates what ``select`` picks from."""
    value: float | str | None = None
    """Expression that is largest for the turn that ``select`` picks; see ``best_of``."""
    with_: dict[str, int | float | bool | str] = Field({}, alias="with")
    """Params of a nested protocol; texts are expressions over the params of this one."""
    roles: dict[Name, Name] = {}
    """Role of the nested protocol -> role here that plays it; those of the same name need not be listed."""
    fields: dict[Variable, str | list[str]] = {}
    """Field of the nested protocol -> template (or list of templates) of its value; those of the same name need not be
    listed. At a ``verify``: field that the check finds beside those of the task -> template, as in ``arguments``."""


class EdgeFile(_File):
    """A guarded or plain edge; plain ones are shorter as ``a & b -> c``."""

    from_: str = Field(alias="from")
    """Nodes that must have finished: all that are joined by ``&``, or any of those joined by ``|``."""
    to: str
    """Nodes that act next, joined by ``&``."""
    times: Whole | None = None
    """How often the edge may be taken in an episode: a whole number or an expression over params."""
    when: bool | str | None = None
    """Expression that must hold: over params, ``round``, ``visits``, ``NODE.field`` of earlier turns and
    ``JUDGE.choice``, ``JUDGE.margin``, ... of verdicts."""
    stop: str | None = Field(None, max_length=60)
    """What the episode's stop reason is if this edge ends it."""


class RewardFile(_File):
    """What roles are paid, and when."""

    roles: list[Name] | None = None
    """Who is paid; absent: the roles that argue."""
    verdict: NodePath | None = None
    """Judge or vote node whose verdict pays."""
    value: Annotated[
        Annotated[float | str, Tag("plain")] | Annotated[dict[Name, float | str], Tag("mapping")],
        Discriminator(_shape),
    ]
    """Expression over ``margin``, ``p``, ``won``, ``correct``, ``score`` (of the verdict), ``NODE.field`` and params;
    with ``pay: turn`` also ``words``, ``tokens``, ``bad_quotes``, ``ok`` and the fields of the turn's ``output``. Or
    role -> expression."""
    pay: str = "end"
    """``end``: every turn earns the final value (high level); ``each_turn``: a turn earns the change it made in the
    verdict; ``next``: a turn earns the value when the named node has run next (low level); ``turn``: a turn earns
    its own value; or a param that holds one of them."""
    bad_quote: float | str = 0.0
    """Paid to the speaker for each bad quote: a number or an expression over params."""
    zero_sum: bool = False
    """The values of the roles add up to 0: tried when the file is read, and checked in every episode."""


class BudgetFile(_File):
    """When an episode is stopped at the latest. Each is a whole number or an expression over params."""

    turns: Whole | None = None
    """Most turns, attempts and candidates included."""
    tokens: Whole | None = None
    """Most sampled tokens, hidden thinking included."""
    seconds: Whole | None = None
    """Most seconds of wall time (which makes the episode depend on the machine)."""


class ProtocolFile(_File):
    """A protocol."""

    extends: str | None = None
    """A protocol (library name, or a path beside this file) that this one changes: mappings are merged key by key,
    other values are replaced, and a key with no value is taken away."""
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
    lists: dict[Variable, list[str]] = {}
    """Name -> texts that nodes may ``draw`` from, and templates may show: ``{{ personas[number - 1] }}``."""
    fields: list[FieldName] = []
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
    rewards: (
        Annotated[
            Annotated[RewardFile, Tag("mapping")] | Annotated[list[RewardFile], Tag("list")], Discriminator(_shape)
        ]
        | None
    ) = None
    """Needed for training only: one reward, or several that add up."""
    budget: BudgetFile | None = None
    """When an episode is stopped at the latest."""


def _or_nothing(shape: dict[str, Any]) -> dict[str, Any]:
    """The shape of a value that a file with ``extends`` may also leave empty, to take it away."""
    if {"type": "null"} in shape.get("anyOf", []):
        return shape
    about: dict[str, Any] = {key: shape[key] for key in ("title", "description", "default") if key in shape}
    inside = {key: value for key, value in shape.items() if key not in about}
    return {**about, "anyOf": [*inside.pop("anyOf", [inside]), {"type": "null"}]}


def protocol_schema() -> dict[str, Any]:
    """The JSON Schema of protocol files, as editors read it."""
    schema = ProtocolFile.model_json_schema()
    # A file that extends another needs no more than a name, and takes away what it gives no value.
    needed = schema.pop("required")
    schema["anyOf"] = [{"required": needed}, {"required": ["name", "extends"]}]
    for part in (schema, *schema["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            if isinstance(inside := field.get("additionalProperties"), dict):
                field["additionalProperties"] = _or_nothing(inside)
            if isinstance(inside := field.get("patternProperties"), dict):
                field["patternProperties"] = {pattern: _or_nothing(shape) for pattern, shape in inside.items()}
            if part is not schema or name not in ("name", "roles", "nodes", "edges"):
                part["properties"][name] = _or_nothing(field)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
