"""The engine: walks episodes of a protocol, superstep by superstep, many at a time.

All turns that are ready in any episode in flight go to their agents in one call each, so that a model sees one large
batch; all judge nodes likewise. What an episode becomes depends only on (protocol, task, lineup, sides, seed, weights):
concurrency changes nothing but time, and the last bits of a model's log-probs in float32. Nodes of one superstep are
asked before any of their turns is recorded: they are blind to each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena.agents.types import Act, Agent, Ask, Context, Message
from arena.judges.types import Judge, JudgeView
from arena.judging import FAULTS, Bench, ask_judge
from arena.protocols import Node, Protocol, Role
from arena.protocols.errors import BackendError, ConfigError, suggest
from arena.protocols.quotes import QuoteSource, find_quotes, mark_quotes
from arena.protocols.records import Episode, Task, Turn, TurnStatus, Verdict
from arena.seeds import Seeds

__all__ = ["Engine", "Plan"]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """An episode to be played."""

    key: str
    """Unique in the run; its random streams derive from (seed, key)."""
    task: Task
    lineup: Mapping[str, Agent]
    """Speaking role -> agent."""
    sides: tuple[int, ...] | None = None
    """Which answer (task order) each seat argues, seats without a speaker included; None: task order."""


class Engine:
    """Plays a protocol.

    Args:
        protocol: the compiled protocol.
        judges: judge for each judging role, or one judge for all; may be empty for a protocol without judge nodes.
        seed: root of all random streams.
        concurrency: most episodes in flight.
        judging: False passes judge nodes over, for training, which judges all transcripts of a step at once. No verdict
            can change what is said, so the turns are the same.
        on_turn: called after each turn with (plan, turn), in the order of recording.
    """

    def __init__(
        self,
        protocol: Protocol,
        judges: Mapping[str, Judge] | Judge,
        *,
        seed: int,
        concurrency: int = 512,
        judging: bool = True,
        on_turn: Callable[[Plan, Turn], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: at least one episode must be in flight")
        self.protocol = protocol
        self.seeds = Seeds(seed)
        self.concurrency = concurrency
        self.on_turn = on_turn
        self.judging = judging
        needed = {protocol.nodes[name].role.name for name in protocol.judge_nodes} if judging else set()
        self.judges = dict(judges) if isinstance(judges, Mapping) else dict.fromkeys(needed, judges)
        if missing := sorted(needed - set(self.judges)):
            raise ConfigError(
                f"protocol '{protocol.name}' needs a judge for role '{missing[0]}': give --judge {missing[0]}=SPEC"
            )
        self.speakers = set(protocol.speakers)
        self._open = all(node.audience is None for node in protocol.nodes.values())
        self._benches = {
            name: Bench(protocol, protocol.nodes[name], self.judges[protocol.nodes[name].role.name])
            for name in protocol.judge_nodes
            if judging
        }
        self._tables: dict[tuple[int, tuple[int, ...]], _Table] = {}

    def play(self, plans: Sequence[Plan]) -> list[Episode]:
        """Play all plans; the episodes come in the order of the plans."""
        done = {episode.key: episode for batch in self.stream(plans) for episode in batch}
        return [done[plan.key] for plan in plans]

    def stream(self, plans: Iterable[Plan]) -> Iterator[list[Episode]]:
        """Play plans; yields the episodes that finished together, as they finish.

        Raises:
            ConfigError: a plan whose lineup or task does not fit the protocol, or a key that came before.
        """
        waiting = iter(plans)
        keys: set[str] = set()
        games: list[_Game] = []
        self._tables.clear()
        while True:
            for plan in itertools.islice(waiting, self.concurrency - len(games)):
                if plan.key in keys:
                    raise ConfigError(f"two plans have the key '{plan.key}'")
                keys.add(plan.key)
                games.append(_Game(plan, self))
            if not games:
                return
            self._superstep(games)
            finished = [game.episode for game in games if not game.flow.ready or game.episode.error]
            if finished:
                games = [game for game in games if game.flow.ready and not game.episode.error]
                yield finished

    def _superstep(self, games: Sequence[_Game]) -> None:
        asks: dict[int, tuple[Agent, list[tuple[_Game, Node, Ask]]]] = {}
        views: dict[int, tuple[Judge, list[tuple[_Game, Node, JudgeView]]]] = {}
        for game in games:
            for node in game.flow.ready:
                if node.kind == "judge":
                    if self.judging:
                        bench = self._benches[node.name]
                        view = bench.view(game.episode, game.plan.task)
                        views.setdefault(id(bench.judge), (bench.judge, []))[1].append((game, node, view))
                else:
                    agent = game.plan.lineup[node.role.name]
                    asks.setdefault(id(agent), (agent, []))[1].append((game, node, game.ask(node)))
        for agent, asked in asks.values():
            for (game, node, _), act in zip(asked, _acts(agent, [ask for _, _, ask in asked]), strict=True):
                game.acts[node.name] = (agent, act)
        for judge, viewed in views.values():
            for (game, node, _), verdict in zip(viewed, ask_judge(judge, [view for _, _, view in viewed]), strict=True):
                game.verdicts[node.name] = verdict
        for game in games:
            game.record(self.on_turn)

    def table(self, task: Task, sides: tuple[int, ...]) -> _Table:
        """What all episodes on this task with these sides share."""
        key = (id(task), sides)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table(self.protocol, task, sides)
        return table


def _acts(agent: Agent, asks: list[Ask]) -> Sequence[Act]:
    """All acts; where the batch fails, each ask alone, so that one fault does not take its siblings along."""
    before = [(list(ask.context.ids), ask.context.state) for ask in asks]
    try:
        acts = agent.act(asks)
    except FAULTS as error:
        for ask, (ids, state) in zip(asks, before, strict=True):
            ask.context.ids[:], ask.context.state = ids, state
        if len(asks) == 1:
            return [Act("", TurnStatus.TRANSPORT, error=f"{type(error).__name__}: {error}")]
        return [act for ask in asks for act in _acts(agent, [ask])]
    if not isinstance(acts, Sequence) or not all(isinstance(act, Act) and isinstance(act.text, str) for act in acts):
        raise BackendError(f"agent '{agent.name}' answered with something else than a list of acts with texts")
    if len(acts) != len(asks):
        raise BackendError(f"agent '{agent.name}' answered {len(acts)} of {len(asks)} asks")
    return acts


def _whole(text: str) -> str:
    """The text with halves of surrogate pairs replaced: they can be neither printed nor written to a file."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _Seat:
    """What one role sees of one task, rendered once for all episodes that share it."""

    __slots__ = ("_fixed", "names", "opening", "task")

    def __init__(self, protocol: Protocol, role: Role, task: Task, sides: tuple[int, ...]) -> None:
        self.task = Task(task.id, {name: task.fields[name] for name in role.sees if name in task.fields})
        self.names: dict[str, Any] = protocol.visible(role, task)
        answers = task.answers
        if role.argues is not None and role.argues < len(sides):
            self.names["answer"] = answers[sides[role.argues]]
            if len(protocol.seats) == 2:
                self.names["other"] = answers[sides[1 - role.argues]]
        if "answers" in role.sees:
            self.names["sides"] = [answers[side] for side in sides]
        self.opening = role.opening(self.names) if role.opening else None
        self._fixed: dict[str, tuple[Message, ...]] = {}

    def instructions(self, node: Node, visit: int) -> tuple[Message, ...]:
        """Prompt and cue of a node; rendered anew only where they speak of the round."""
        fixed = self._fixed.get(node.name)
        if fixed is not None:
            return fixed
        names = self.names | {"round": visit + 1}
        parts = []
        if node.prompt:
            parts.append(Message("prompt", node.prompt(names)))
        if node.cue:
            parts.append(Message("cue", node.cue(names)))
        messages = tuple(parts)
        if all("round" not in template.names for template in (node.prompt, node.cue) if template):
            self._fixed[node.name] = messages
        return messages


class _Table:
    """A task laid out with sides: seats by role, sources of quotes by field."""

    __slots__ = ("protocol", "seats", "sides", "sources", "task")

    def __init__(self, protocol: Protocol, task: Task, sides: tuple[int, ...]) -> None:
        protocol.check_task(task)
        if sorted(sides) != list(range(len(task.answers))):
            raise ConfigError(
                f"sides {sides} of task '{task.id}' must be a permutation of its {len(task.answers)} answers"
            )
        self.protocol = protocol
        self.task = task
        self.sides = sides
        self.seats: dict[str, _Seat] = {}
        self.sources: dict[str, QuoteSource] = {}

    def seat(self, role: Role) -> _Seat:
        seat = self.seats.get(role.name)
        if seat is None:
            seat = self.seats[role.name] = _Seat(self.protocol, role, self.task, self.sides)
        return seat

    def source(self, field: str) -> QuoteSource:
        source = self.sources.get(field)
        if source is None:
            source = self.sources[field] = QuoteSource(self.task.fields.get(field) or ())
        return source


class _Game:
    """An episode in flight."""

    __slots__ = (
        "acts",
        "contexts",
        "engine",
        "episode",
        "flow",
        "heard",
        "plan",
        "public",
        "quoted",
        "seen",
        "sides",
        "table",
        "verdicts",
    )

    def __init__(self, plan: Plan, engine: Engine) -> None:
        protocol, task, lineup = engine.protocol, plan.task, plan.lineup
        if not engine.speakers <= lineup.keys():
            role = min(engine.speakers - lineup.keys())
            raise ConfigError(
                f"protocol '{protocol.name}' has a role '{role}' that nobody fills: give --agent {role}=SPEC"
            )
        if not lineup.keys() <= engine.speakers:
            role = min(lineup.keys() - engine.speakers)
            raise ConfigError(
                f"'{role}' is not a speaking role of protocol '{protocol.name}'.{suggest(role, engine.speakers)}"
            )
        self.plan = plan
        self.engine = engine
        self.sides = plan.sides if plan.sides is not None else tuple(range(len(task.answers)))
        self.table = engine.table(task, self.sides)
        self.flow = protocol.flow()
        names = {role: agent.name for role, agent in lineup.items()}
        self.episode = Episode(plan.key, protocol.name, task.id, names, self.sides)
        self.contexts: dict[str, Context] = {}
        self.seen: dict[str, int] = {}
        self.heard: list[Message] = []
        """How each turn so far reads to the other roles."""
        self.public: list[Turn] = []
        """The turns so far without their tokens, whose prompts hold what only the speaker may see."""
        self.quoted: set[str] = set()
        self.acts: dict[str, tuple[Agent, Act]] = {}
        self.verdicts: dict[str, Verdict] = {}

    def ask(self, node: Node) -> Ask:
        role, turns = node.role, self.episode.turns
        name = role.name
        seat = self.table.seat(role)
        context = self.contexts.get(name)
        new: list[Message] = []
        if context is None:
            context = self.contexts[name] = Context()
            if seat.opening is not None:
                new.append(Message("opening", seat.opening))
        for index in range(self.seen.get(name, 0), len(turns)):
            turn = turns[index]
            if turn.role != name and (turn.audience is None or name in turn.audience):
                new.append(self.heard[index])
        self.seen[name] = len(turns)
        visit = self.flow.visits.get(node.name, 0)
        new.extend(seat.instructions(node, visit))
        visible = self.public
        if not self.engine._open:
            visible = [turn for turn in visible if turn.role == name or turn.audience is None or name in turn.audience]
        return Ask(
            episode=self.plan.key,
            node=node.name,
            role=name,
            visit=visit,
            seed=self.engine.seeds(self.plan.key, node.name, visit),
            context=context,
            new=new,
            max_tokens=node.max_tokens,
            answer=None if role.argues is None else self.sides[role.argues],
            task=seat.task,
            heard=tuple(visible),
            quote_field=node.quote.field if node.quote else None,
        )

    def record(self, on_turn: Callable[[Plan, Turn], None] | None) -> None:
        """Write turns and verdicts of the superstep down, in the order of the protocol's nodes, and walk on."""
        episode = self.episode
        already = len(episode.turns)
        # What the roles of one superstep quote at the same time is new for each of them.
        quoted = frozenset(self.quoted) if len(self.flow.ready) > 1 else self.quoted
        for node in self.flow.ready:
            if node.kind == "judge":
                if node.name in self.verdicts:
                    episode.verdicts.pop(node.name, None)
                    episode.verdicts[node.name] = self.verdicts.pop(node.name)
                continue
            agent, act = self.acts.pop(node.name)
            turn, marked = self._turn(node, agent, act, quoted)
            episode.turns.append(turn)
            self.public.append(_without_tokens(turn))
            self.heard.append(Message("heard", self._rendered(node, turn, marked)))
            if act.status is TurnStatus.TRANSPORT:
                episode.stop, episode.error = "error", f"{node.name}: {act.error or 'no answer'}"
            if on_turn is not None:
                on_turn(self.plan, turn)
        for turn in episode.turns[already:]:
            self.quoted.update(quote.text for quote in turn.quotes if quote.good)
        self.flow.advance()

    def _turn(self, node: Node, agent: Agent, act: Act, quoted: set[str] | frozenset[str]) -> tuple[Turn, str]:
        text, status = _whole(act.text), act.status
        if node.max_words is not None and len(words := text.split()) > node.max_words:
            text, status = " ".join(words[: node.max_words]), TurnStatus.OVER_LIMIT
        role = node.role
        turn = Turn(
            index=len(self.episode.turns),
            superstep=self.flow.superstep,
            node=node.name,
            role=role.name,
            visit=self.flow.visits.get(node.name, 0),
            agent=agent.name,
            answer=None if role.argues is None else self.sides[role.argues],
            text=text,
            status=status,
            audience=node.audience,
            tokens=act.tokens,
            error=act.error,
        )
        if node.quote is None:
            return turn, text
        turn.quotes = find_quotes(node.quote, text, self.table.source(node.quote.field), quoted)
        return turn, mark_quotes(node.quote, text, turn.quotes)

    def _rendered(self, node: Node, turn: Turn, marked: str) -> str:
        message = self.engine.protocol.message
        names = {
            "role": turn.role,
            "text": marked,
            "answer": "" if turn.answer is None else self.plan.task.answers[turn.answer],
            "round": turn.visit + 1,
        }
        if "cue" in message.names:
            seat = self.table.seat(node.role)
            names["cue"] = next((m.text for m in seat.instructions(node, turn.visit) if m.kind == "cue"), "")
        return message(names)


def _without_tokens(turn: Turn) -> Turn:
    return Turn(
        turn.index,
        turn.superstep,
        turn.node,
        turn.role,
        turn.visit,
        turn.agent,
        turn.answer,
        turn.text,
        turn.status,
        turn.quotes,
        turn.audience,
    )
