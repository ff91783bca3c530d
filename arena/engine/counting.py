"""Moves that nobody makes: votes, selections and computations over what was said."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from arena.engine.programs import said
from arena.engine.rating import Candidate, best, rate
from arena.engine.requests import Steps
from arena.protocols.errors import ConfigError
from arena.protocols.records import Turn, TurnStatus, Verdict
from arena.protocols.templates import shown_number
from arena.protocols.votes import combine_verdicts, count_votes, vote_verdict

if TYPE_CHECKING:
    from arena.engine.move import Move

__all__ = ["compute", "select", "vote"]


def vote(move: Move) -> Steps[None]:
    """Count what the named nodes chose, or combine what they decided."""
    game, station = move.game, move.station
    node = station.node
    answers = game.tables[station.owner].task.answers
    turns = [turn for name in node.about for turn in game.standing((name,))]
    told = ""
    if station.combines:
        verdicts = [game.verdict_of(name) for name in node.about]
        move.verdict = combine_verdicts(verdicts, node.rule, node.name)
        choices: list[Any] = [_text(answers, verdict.choice if verdict else None) for verdict in verdicts]
        rule = "plurality" if node.rule == "mean" else node.rule
        fields = count_votes(choices, rule)
        fields["choice"] = _text(answers, move.verdict.choice)
        told = _verdict_told(answers, move.verdict)
    else:
        last = [next(iter(game.standing((name,))), None) for name in node.about]
        fields = count_votes([turn.fields.get(node.count) if turn else None for turn in last], node.rule)
        if node.votes_on_answers:
            indices = [turn.fields.get("index") if turn else None for turn in last]
            move.verdict = vote_verdict(indices, len(answers), node.rule, node.name)
    if move.verdict is not None:
        fields["index"] = move.verdict.choice
    turn = move.turn(station.seat, said(move, fields, told or _result(fields)))
    turn.fields = fields
    turn.about = tuple(turn.index for turn in turns)
    move.turns = [turn]
    return
    yield


def _verdict_told(answers: tuple[str, ...], verdict: Verdict) -> str:
    """One line for readers of a combined verdict."""
    choice = verdict.choice
    if choice is None:
        return f"The verdict of all is {verdict.status}."
    return f"The verdict of all is for {answers[choice]} ({math.exp(verdict.logps[choice]):.2f})."


def _text(answers: tuple[str, ...], index: int | None) -> str | None:
    return None if index is None else answers[index]


def _result(fields: dict[str, Any]) -> str:
    """One line for readers of the vote."""
    if "value" in fields:
        return "No number was given." if fields["value"] is None else f"The mean is {fields['value']:g}."
    choice, cast = fields.get("choice"), fields.get("cast")
    if choice is None:
        return f"No choice has the vote ({cast} cast)."
    return f"The vote is for {choice} ({fields.get('votes')} of {cast} cast)."


def select(move: Move) -> Steps[None]:
    """Say the best of the named nodes' last turns again."""
    game, station = move.game, move.station
    node = station.node
    standing = game.standing(node.about)
    if not standing:
        raise move.fail("", ConfigError("there is nothing to select from"))
    offered = [turn for turn in standing if turn.status is not TurnStatus.REFUSED]
    if not offered:
        move.turns = [_nothing(move, standing)]
        return
    candidates = [Candidate(turn, _answer_of(move, turn)) for turn in offered]
    assert node.value is not None
    values = yield from rate(move, candidates, node.value, frozenset(turn.index for turn in offered))
    place = best(candidates, values)
    chosen = offered[place]
    move.turns = [_again(move, chosen, standing, standing.index(chosen), values[place])]


def _nothing(move: Move, standing: list[Turn]) -> Turn:
    """All that could be picked was refused."""
    turn = move.turn(move.station.seat, "", TurnStatus.REFUSED)
    turn.fields = {"picked": None, "value": None}
    turn.about, turn.audience = tuple(each.index for each in standing), ()
    return turn


def _again(move: Move, chosen: Turn, offered: list[Turn], place: int, value: float | None) -> Turn:
    game = move.game
    output = game.house.protocol.nodes[chosen.node].output
    read = {name: chosen.fields.get(name) for name in output.fields} if output else {}
    fields = {**read, "picked": place, "value": value}
    turn = move.turn(move.station.seat, said(move, fields, chosen.text), chosen.status)
    turn.answer, turn.quotes, turn.fields = chosen.answer, chosen.quotes, fields
    turn.about = tuple(turn.index for turn in offered)
    return turn


def _answer_of(move: Move, turn: Turn) -> int | None:
    """The answer that an offered turn speaks for: the one that its seat argues, or else the one that it chooses."""
    game = move.game
    station = game.house.stations[turn.node]
    output = station.node.output
    argued = game.table(station).seat(station.role).answer if turn.answer is None else turn.answer
    if argued is None and output is not None and output.choices_field == "answers":
        return turn.fields.get("index")
    return argued


def compute(move: Move) -> Steps[None]:
    """Work out expressions over task fields and what was said."""
    game, station = move.game, move.station
    node = station.node
    task = game.table(station).task
    fields: dict[str, Any] = {}
    for name, expression in node.computes.items():
        names = {**task.fields, **game.values}
        try:
            value = expression(names)
        except ConfigError as error:
            raise move.fail(f"{name}: ", error) from error
        if isinstance(value, str) and value not in expression.literals:
            raise move.fail(f"{name}: ", ConfigError(f"'{expression.source}' gives a text that does not stand in it"))
        fields[name] = value
    text = ", ".join(
        f"{name} = {shown_number(value) if type(value) is float else value}" for name, value in fields.items()
    )
    turn = move.turn(station.seat, said(move, fields, text), TurnStatus.OK)
    turn.fields = fields
    if node.say is None:
        turn.audience = ()
    move.turns = [turn]
    return
    yield
