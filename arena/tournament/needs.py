"""What models will be asked for in games that are still to be played, and what that costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena.agents import AGENTS
from arena.agents.prices import Price, load_prices, price_of
from arena.judges import JUDGES
from arena.protocols import Protocol
from arena.protocols.errors import ArenaError
from arena.protocols.records import Task
from arena.protocols.registry import Registry, parse_spec
from arena.scheduling import Pairing
from arena.tournament.arms import ALL_AGENTS, arm_protocol, row_names
from arena.tournament.config import SpecLike, TournamentConfig
from arena.tournament.entries import Entry
from arena.tournament.trial import CHARS, FREE_TURN, Measured, try_games

__all__ = ["ModelUse", "Needs"]

_JUDGED = 20
"""Tokens that a judge writes in an answer, about."""
_TRIED = 3
"""Tasks of which a game is tried."""
_PROGRAMS = frozenset(
    {"biased", "echo", "exact", "fixed", "greedy-quotes", "human", "list", "match", "random", "random-quotes"}
    | {"scripted", "silent", "verifier"}
)
"""Agents and judges that are no models."""
_BOTH_ORDERS = ("llm", "llm-api")
"""Judges that are shown the answers in as many orders as there are answers."""


@dataclass(slots=True)
class ModelUse:
    """What one model will be asked for."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: Price | None = None
    own: bool = True
    """Runs here, or is no model at all: nobody sends a bill."""

    @property
    def cost(self) -> float | None:
        """US dollars, nothing taken from the server's cache; None where the price is unknown."""
        if self.own:
            return 0.0
        if self.price is None:
            return None
        return (self.prompt_tokens * self.price.input + self.completion_tokens * self.price.output) / 1e6


class Needs:
    """Adds up what models are asked for."""

    def __init__(
        self,
        config: TournamentConfig,
        entries: Mapping[str, Entry],
        tasks: Sequence[Task],
        left: float,
        sampled: float | None,
    ) -> None:
        self.config, self.entries, self.tasks, self.left, self.sampled = config, entries, tasks, left, sampled
        self.models: defaultdict[str, ModelUse] = defaultdict(ModelUse)
        self.notes: list[str] = []
        self.known = True
        """Whether games of all protocols could be tried."""
        self._tried: dict[str, Measured | None] = {}
        self.tokens = 0.0
        """Sampled by agents."""
        self.source = (
            f"prompts of {_TRIED} tried games at {CHARS} characters a token; turns as long as the protocol lets them "
            f"be, {FREE_TURN} tokens where it sets no bound; {_JUDGED} tokens a judge's answer"
        )
        if sampled is not None:
            self.source += f"; turns scaled to the {sampled:.0f} tokens that a stored game sampled"

    def games(self, protocols: Mapping[str, Protocol], pairings: Sequence[Pairing]) -> None:
        """The rated games that are left."""
        played = Counter(name for pairing in pairings for name in (pairing.first, pairing.second))
        for protocol in protocols.values():
            game = self.tried(protocol)
            if game is None:
                continue
            for seat in protocol.seats:
                for name, count in played.items():
                    self.add(AGENTS, self.entries[name].spec_of(seat), game, seat, count * self.left)
            self.add(JUDGES, self.config.judge, game, "", len(pairings) * 2 * self.left)

    def arms(self, rows: Mapping[str, int], stored: Mapping[str, int]) -> None:
        """The games of arms that are left."""
        for name, arm in self.config.arms.items():
            protocol = arm_protocol(arm)
            game = self.tried(protocol)
            lineup = arm.lineup
            several = list(self.entries) if lineup == ALL_AGENTS else [lineup]
            for row, filler in zip(row_names(name, arm, tuple(self.entries)), several, strict=True):
                left = rows[row] - stored.get(f"arm/{row}", 0)
                if game is None or left <= 0:
                    continue
                for role in protocol.speakers:
                    own = isinstance(filler, str) and filler in self.entries
                    assert filler is not None  # a checked file says who speaks
                    spec = self.entries[str(filler)].spec_of(role) if own else filler
                    self.add(AGENTS, spec, game, role, left)
                self.add(JUDGES, self.config.judge, game, "", left)

    def rejudged(self, protocols: Mapping[str, Protocol], pairings: int) -> None:
        """What further judges read."""
        for spec in self.config.judges.values():
            for protocol in protocols.values():
                if (game := self.tried(protocol)) is not None:
                    self.add(JUDGES, spec, game, "", 2 * pairings)

    def add(self, registry: Registry[Any], spec: SpecLike, game: Measured, role: str, games: float) -> None:
        """Count ``games`` games of a role."""
        if games <= 0 or not game.calls[role] or parse_spec(spec).kind in _PROGRAMS:
            return
        name, price, own = _billed(registry, spec)
        orders = 1 if role or parse_spec(spec).kind not in _BOTH_ORDERS else len(self.tasks[0].answers)
        scale = games / game.games * orders
        completion = game.completion[role] * self.scale(game) if role else game.calls[role] * _JUDGED
        use = self.models[name]
        use.price, use.own = price, own
        use.calls += round(game.calls[role] * scale)
        use.prompt_tokens += round(game.prompt[role] * scale)
        use.completion_tokens += round(completion * scale)
        self.tokens += completion * scale if role else 0

    def scale(self, game: Measured) -> float:
        """What turns are in truth, as a share of what they may be."""
        longest = sum(count for role, count in game.completion.items() if role) / game.games
        return 1.0 if self.sampled is None or not longest else self.sampled / longest

    def tried(self, protocol: Protocol) -> Measured | None:
        """A few games of a protocol; None, and a note, where they do not end."""
        if protocol.fingerprint not in self._tried:
            self._tried[protocol.fingerprint] = None
            try:
                self._tried[protocol.fingerprint] = try_games(protocol, self.tasks[:_TRIED])
            except ArenaError as error:
                self.known = False
                self.notes.append(f"tokens and cost are not known: {error}")
        return self._tried[protocol.fingerprint]


def _billed(registry: Registry[Any], spec: SpecLike) -> tuple[str, Price | None, bool]:
    """Name of the model behind a spec, its price, and whether nobody sends a bill for it."""
    asked = parse_spec(spec)
    # What can be told other prices is what somebody sends a bill for.
    priced = {"kind": asked.kind, "prices": ""}
    if "prices" in registry.identity(priced):
        return asked.kind if "model" not in asked.args else str(asked.args["model"]), None, True
    model = str(asked.args.get("model", asked.kind))
    table = asked.args.get("prices")
    if table is None and "base_url" in asked.args:
        return model, None, False  # the table of the package is of OpenAI's own server
    return model, price_of(model, load_prices(table) if table else load_prices()), False
