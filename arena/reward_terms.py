"""What the values of a reward speak of, prepared once for all episodes of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from arena.judging import answers_scope
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.graph import Reward
from arena.protocols.records import Turn
from arena.values import TOKEN, TURN_FIELDS

__all__ = ["OF_VERDICT", "OWN", "Key", "Terms"]

OF_VERDICT = frozenset({"margin", "p", "won", "correct", "score"})
"""What a value can say about the verdict that pays."""


def _tokens(turn: Turn) -> int:
    """Tokens of the visible text: as the agent counted them, or words and punctuation marks."""
    if turn.visible_tokens is not None:
        return turn.visible_tokens
    if turn.tokens is not None:
        return len(turn.tokens.ids) - turn.tokens.thinking
    return len(TOKEN.findall(turn.text))


OWN: Mapping[str, Callable[[Turn], Any]] = {**TURN_FIELDS, "tokens": _tokens}
"""What a value can say about the turn that it pays, beside its fields."""


@dataclass(frozen=True, slots=True)
class Key:
    """``NODE.field`` of an expression."""

    nodes: tuple[str, ...]
    field: str
    grouped: bool
    """It means a tuple, even of one."""


class Terms:
    """A reward, prepared once for all episodes."""

    __slots__ = ("judges", "keys", "own", "own_answers", "reward", "seats", "watched")

    def __init__(self, protocol: Protocol, reward: Reward) -> None:
        self.reward = reward
        named = frozenset().union(*(expression.names for expression in reward.values.values()))
        self.keys = {name: _key(protocol, name) for name in named if "." in name}
        nodes = {node for key in self.keys.values() for node in key.nodes}
        self.judges = sorted(name for name in nodes if protocol.nodes[name].gives_verdict)
        """Verdict nodes that values name as ``NODE.field``."""
        paying = set() if reward.verdict is None else {reward.verdict}
        self.watched = {
            seat: paying.union(*(self.keys[name].nodes for name in expression.names & self.keys.keys()))
            for seat, expression in reward.values.items()
        }
        """Nodes for which ``pay: next`` waits."""
        self.own = {
            seat: frozenset(name for name in expression.names if "." not in name)
            for seat, expression in reward.values.items()
        }
        """What the value of a seat says about the turn that it pays."""
        node = protocol.nodes[reward.verdict] if reward.verdict is not None else None
        scope = (node.scope if node else None) or protocol.scope
        self.own_answers = answers_scope(scope) != ""
        """The verdict is on answers that a nested protocol makes itself; they are argued in their order."""
        self.seats = {
            role.seat: role.argues
            for role in protocol.roles.values()
            if role.argues is not None and (role.scope or protocol.scope) is scope
        }
        """Seat -> which side it argues where the verdict is given."""


def _key(protocol: Protocol, key: str) -> Key:
    place, _, field = key.rpartition(".")
    for name, nodes in protocol.groups.items():
        if _spelt(name) == place:
            return Key(nodes, field, grouped=nodes != (name,))
    for name in protocol.nodes:
        if _spelt(name) == place:
            return Key((name,), field, grouped=False)
    raise ConfigError(f"rewards of '{protocol.name}': '{key}' names no node")


def _spelt(name: str) -> str:
    """A node's name as expressions spell it."""
    return name.replace("-", "_")
