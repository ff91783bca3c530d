"""Moves at which an agent of the lineup speaks: asked, cut to the limits, read, and if need be asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from arena.agents.types import Act, Ask, Context, Message
from arena.engine.hearing import Heard, public
from arena.engine.rating import Candidate, best, rate
from arena.engine.requests import EpisodeError, Say, Steps, side_by_side
from arena.protocols import Node
from arena.protocols.lengths import cut_words
from arena.protocols.outputs import read_output
from arena.protocols.quotes import find_quotes
from arena.protocols.records import TokenSpan, Turn, TurnStatus
from arena.protocols.thinking import part_thinking
from arena.values import READABLE, TOKEN

if TYPE_CHECKING:
    from arena.engine.hearing import Ear
    from arena.engine.move import Move
    from arena.engine.tables import Seat

__all__ = ["limited", "sampled_tokens", "speak", "whole"]


@dataclass(slots=True)
class _Line:
    """What one candidate is asked with: its own branch of the context, where there are several."""

    context: Context
    new: Sequence[Message]
    heard: Sequence[Turn]
    draws: dict[str, Any]
    options: tuple[str, ...]
    sample: int
    spoken: int
    branched: bool
    """The context is a branch that may be forgotten."""


def speak(move: Move) -> Steps[None]:
    """One turn of an agent, or the best of several."""
    game, station = move.game, move.station
    node = station.node
    seat = game.table(station).seat(station.role)
    ear = game.ear(station.seat)
    if node.ephemeral:
        ear = ear.branch()
    new = game.tell(ear, station.role, seat)
    draws = _draw(move, seat) if node.draws else {}
    asked = game.instructions(move, seat, draws)
    if node.cue is not None:
        move.cue = asked[-1].text
    new.extend(asked)
    options = _options(node, seat)
    if node.best_of is None:
        line = _Line(ear.context, new, Heard(game, ear.heard), draws, options, 0, ear.spoken, node.ephemeral)
        move.turns = yield from _say(move, line, seat)
    else:
        yield from _say_best(move, ear, new, draws, options, seat)


def _say_best(
    move: Move, ear: Ear, new: list[Message], draws: dict[str, Any], options: tuple[str, ...], seat: Seat
) -> Steps[None]:
    """The best of several candidates goes on with the context; the others are kept as what was not said."""
    node = move.station.node
    assert node.best_of is not None
    heard = Heard(move.game, ear.heard)
    lines = [
        _Line(Context(list(ear.context.ids), ear.context.state), new, heard, draws, options, sample, ear.spoken, True)
        for sample in range(node.best_of.n)
    ]
    spoken = yield from side_by_side([_say(move, line, seat) for line in lines])
    candidates = [Candidate(turns[-1], _argued(turns[-1], node, seat)) for turns in spoken]
    values = yield from rate(move, candidates, node.best_of.value)
    chosen = best(candidates, values)
    for number, turns in enumerate(spoken):
        if number != chosen:
            turns[-1].kept, turns[-1].audience = False, ()
        elif not node.ephemeral:
            _rejoin(turns, ear.context.ids)
            ear.context = lines[number].context
        move.turns += turns


def _say(move: Move, line: _Line, seat: Seat) -> Steps[list[Turn]]:
    """Ask until the answer can be read or no more attempts are left: the turns in order."""
    game, station = move.game, move.station
    node = station.node
    agent = game.plan.lineup[station.seat]
    turns: list[Turn] = []
    new, heard = line.new, line.heard
    while True:
        attempt = len(turns)
        ask = _ask(move, line, seat, new, heard, attempt)
        before = tuple(line.context.ids) if line.branched else ()
        act: Act
        (act,) = yield (Say(agent, ask),)
        turn = _turn(move, agent.name, act, line, seat)
        turn.attempt = attempt
        if line.branched and act.tokens is not None:
            turn.tokens = _aside(act.tokens, before)
        turns.append(turn)
        if turn.status is not TurnStatus.PARSE_ERROR or attempt >= node.retries:
            return turns
        if not game.may_retry(move, attempt, sum(map(sampled_tokens, turns))):
            return turns
        turn.kept, turn.audience = False, ()
        heard = (*heard, public(turn, node))
        new = _again(turn, line.new)


def _ask(move: Move, line: _Line, seat: Seat, new: Sequence[Message], heard: Sequence[Turn], attempt: int) -> Ask:
    game, station = move.game, move.station
    node, key, sample = station.node, game.plan.key, line.sample
    path = f"{key}\0{node.name}\0{move.visit}"
    seed = game.house.seeds.of(path if sample == 0 and attempt == 0 else f"{path}\0{sample}\0{attempt}")
    limit, thinking = node.max_tokens, node.max_thinking
    return Ask(
        key, node.name, station.seat, move.visit, seed, line.context, new,
        limit if limit is None or thinking is None else limit + thinking,
        seat.answer, seat.task, heard, node.quote.field if node.quote else None,
        node.output, line.options, node.max_words, thinking, sample, attempt, line.spoken,
    )  # fmt: skip


def sampled_tokens(turn: Turn) -> int:
    """Tokens that a turn cost, hidden thinking included, as far as they are known."""
    return len(turn.tokens.ids) if turn.tokens else (turn.visible_tokens or 0) + turn.thinking_tokens


def _again(turn: Turn, new: Sequence[Message]) -> list[Message]:
    """What the speaker is told after an answer that cannot be read, and the cue once more."""
    note = Message("prompt", f"Your answer could not be read. {turn.error} Answer again, in this form.")
    return [note, *(message for message in new if message.kind == "cue")]


def _turn(move: Move, agent: str, act: Act, line: _Line, seat: Seat) -> Turn:
    """What was said, within the limits and read."""
    node = move.station.node
    (text, hidden), thinking, status = part_thinking(whole(act.text)), whole(act.thinking), act.status
    if hidden:
        thinking = f"{thinking}\n{hidden}" if thinking else hidden
    over = False
    if node.max_words is not None or node.max_tokens is not None or node.max_thinking is not None:
        text, thinking, over = limited(node, act, text, thinking)
        if over and status in READABLE:
            status = TurnStatus.REFUSED if node.refuses else TurnStatus.OVER_LIMIT
    span = act.tokens
    turn = Turn(
        -1, move.game.flow.superstep, node.name, move.station.seat, move.visit, agent,
        seat.answer if move.station.owner == "" else None, text, status, (), node.audience, span, act.error,
    )  # fmt: skip
    turn.sample, turn.thinking, turn.visible_tokens = line.sample, thinking, act.visible_tokens
    turn.thinking_tokens = act.thinking_tokens or (span.thinking if span else 0)
    if node.quote is not None:
        turn.quotes = find_quotes(
            node.quote, text, move.game.table(move.station).source(node.quote.field), move.game.quoted
        )
    if node.output is not None or line.draws:
        _read(turn, node, line)
        if node.claims and move.station.owner == "" and turn.fields.get("index") is not None:
            turn.answer = turn.fields["index"]
    if node.about:
        _point(move, turn)
    if turn.status is TurnStatus.REFUSED or node.ephemeral:
        turn.audience = ()
    return turn


def _read(turn: Turn, node: Node, line: _Line) -> None:
    """Fields of the turn: what was drawn for it, and what is read from it."""
    fields = dict(line.draws)
    if node.output is not None:
        if turn.status in READABLE:
            found, fault = read_output(node.output, turn.text, line.options)
            if fault is not None:
                turn.status, turn.error = TurnStatus.PARSE_ERROR, fault
        else:
            found = dict.fromkeys(node.output.fields)
        fields |= found
    turn.fields = fields


def _point(move: Move, turn: Turn) -> None:
    """What the turn is about, and the draft that it stands for: none if it cannot be read itself."""
    about = move.game.standing(move.station.node.about)
    turn.about = tuple([target.index for target in about])
    if move.station.node.kind == "revise" and about and turn.status in READABLE:
        turn.replaces = about[-1].index


def _draw(move: Move, seat: Seat) -> dict[str, Any]:
    """An item of each list that the node draws from."""
    game, node = move.game, move.station.node
    lists = node.scope.lists if node.scope else {}
    drawn: dict[str, Any] = {}
    for name, source in node.draws.items():
        items = lists[source] if source in lists else _items(node, seat, source)
        drawn[name] = items[game.house.seeds(game.plan.key, node.name, move.visit, "draw", name) % len(items)]
    return drawn


def _options(node: Node, seat: Seat) -> tuple[str, ...]:
    """The texts to choose from."""
    rule = node.output
    if rule is None or rule.kind != "choice":
        return ()
    return _items(node, seat, rule.choices_field) if rule.choices_field else rule.choices


def _items(node: Node, seat: Seat, field: str) -> tuple[str, ...]:
    """A task field that is a list; an optional one may be missing."""
    items = seat.task.fields.get(field)
    if not items:
        raise EpisodeError(f"{node.name}: task '{seat.task.id}' has no '{field}' to take from")
    return tuple(items)


def _argued(turn: Turn, node: Node, seat: Seat) -> int | None:
    """The answer that a candidate speaks for: the one it chooses, or the one that its seat argues."""
    chooses = node.output is not None and node.output.choices_field == "answers"
    return turn.fields.get("index") if chooses and (node.claims or seat.answer is None) else seat.answer


# Limits


def limited(node: Node, act: Act, text: str, thinking: str) -> tuple[str, str, bool]:
    """Text and thinking, cut where they are too long, and whether they were; a turn that is refused is left whole."""
    shown, hidden = text, thinking
    if node.max_words is not None:
        shown = cut_words(text, node.max_words)
    if node.max_tokens is not None:
        shown = _cut_tokens(shown, _visible_tokens(act, text), node.max_tokens)
    if node.max_thinking is not None:
        hidden = _cut_tokens(hidden, _thinking_tokens(act, hidden), node.max_thinking)
    over = shown is not text or hidden is not thinking
    return (text, thinking, over) if node.refuses else (shown, hidden, over)


def _visible_tokens(act: Act, text: str) -> int:
    if act.visible_tokens is not None:
        return act.visible_tokens
    if act.tokens is not None:
        return len(act.tokens.ids) - (act.tokens.thinking or act.thinking_tokens)
    return _count(text)


def _thinking_tokens(act: Act, thinking: str) -> int:
    return act.thinking_tokens or (act.tokens.thinking if act.tokens else 0) or _count(thinking)


def _count(text: str) -> int:
    return sum(1 for _ in TOKEN.finditer(text))


def _cut_tokens(text: str, count: int, most: int) -> str:
    """The beginning of a text of ``count`` tokens, in proportion: whose tokens they are, the engine cannot know."""
    if count <= most:
        return text
    ends = [token.end() for token in TOKEN.finditer(text)]
    keep = len(ends) * most // count
    return text[: ends[keep - 1]] if keep else ""


# The token ledger of branches


def _aside(span: TokenSpan, before: tuple[int, ...]) -> TokenSpan:
    """The span as a branch of its own: its prompt is all that stood before it."""
    prompt = span.prompt if span.fresh else before + span.prompt
    return replace(span, prompt=prompt, side=True)


def _rejoin(turns: Sequence[Turn], stem: Sequence[int]) -> None:
    """The spans of the candidate that is said, as what was added to the context that it branched off from."""
    before = len(stem)
    for turn in turns:
        span = turn.tokens
        if span is None:
            continue
        added = span.prompt if span.fresh else span.prompt[before:]
        before = len(span.prompt) + len(span.ids)
        turn.tokens = replace(span, prompt=added, side=False)


def whole(text: str) -> str:
    """The text with halves of surrogate pairs replaced: they can be neither printed nor written to a file."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
