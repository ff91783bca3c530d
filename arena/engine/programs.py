"""Moves of programs: tools that run what a speaker called or what the node says, and checks of what was said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arena.agents.types import Act
from arena.engine.names import fill
from arena.engine.rating import check_request
from arena.engine.requests import Run, Steps
from arena.engine.speaking import limited, whole
from arena.protocols import Node
from arena.protocols.errors import ConfigError
from arena.protocols.programs import Outcome
from arena.protocols.records import Turn, TurnStatus

if TYPE_CHECKING:
    from arena.engine.move import Move

__all__ = ["call_tool", "said", "verify"]


def call_tool(move: Move) -> Steps[None]:
    """Run the call that was made in the turn that the node is about."""
    from arena.agents.tools import run_call

    game, station = move.game, move.station
    caller = _target(move)
    call = game.call(move, caller, station.role)
    name: Any = call.turn.get("tool")
    if station.node.run:
        name, call = station.node.run, replace(call, arguments=game.given(move, station.node.arguments))
    tool = station.tools.get(name) if isinstance(name, str) else None
    outcome: Outcome
    (outcome,) = yield (Run(lambda: run_call(station.tools, name, call), bool(tool and tool.slow)),)
    outcome = _within(station.node, outcome)
    if outcome.status is TurnStatus.REFUSED:
        outcome = replace(outcome, fields=dict.fromkeys(outcome.fields))
    _record(move, caller, outcome, {"tool": name, **outcome.fields})


def verify(move: Move) -> Steps[None]:
    """Examine the turn that the node is about."""
    examined = _target(move)
    if examined is None:
        outcome = Outcome("There is nothing to check yet.", TurnStatus.TOOL_ERROR, {"passed": None, "score": None})
    else:
        (outcome,) = yield (check_request(move, examined),)
    _record(move, examined, outcome, dict(outcome.fields))


def _within(node: Node, outcome: Outcome) -> Outcome:
    """What a tool said, within the limits of its node; a failed call stays one where it is only cut."""
    text, _, over = limited(node, Act(outcome.text), outcome.text, "")
    if not over:
        return outcome
    cut = TurnStatus.OVER_LIMIT if outcome.status is TurnStatus.OK else outcome.status
    return replace(outcome, text=text, status=TurnStatus.REFUSED if node.refuses else cut)


def _target(move: Move) -> Turn | None:
    about = move.game.standing(move.station.node.about)
    return about[-1] if about else None


def _record(move: Move, about: Turn | None, outcome: Outcome, fields: dict[str, Any]) -> None:
    text = said(move, fields, whole(outcome.text))
    turn = move.turn(move.station.seat, text, outcome.status)
    turn.error = outcome.error
    turn.fields = fields
    turn.about = () if about is None else (about.index,)
    if turn.status is TurnStatus.REFUSED:
        turn.audience = ()
    move.turns = [turn]


def said(move: Move, fields: dict[str, Any], text: str) -> str:
    """How the result of a node without a speaker reads: its ``say``, or ``text``."""
    game, station = move.game, move.station
    node = station.node
    if node.say is None:
        return text
    names = {**game.table(station).seat(station.role).names, **(node.scope.absent if node.scope else {})}
    names |= {"round": game.flow.rounds(node.name) + 1, "text": text, **fields}
    names |= {root: fill(named, game.shown) for root, named in station.say_named.items()}
    try:
        return node.say(names)
    except ConfigError as error:
        raise move.fail("say: ", error) from error
