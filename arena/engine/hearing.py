"""What seats have been told: turns without what only their speakers may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from arena.agents.types import Context
from arena.protocols import Node
from arena.protocols.records import Turn

if TYPE_CHECKING:
    from arena.engine.transcript import Transcript

__all__ = ["Ear", "Heard", "public"]


class Ear:
    """What one seat has been told so far, and what its agent keeps."""

    __slots__ = ("context", "heard", "opened", "seen", "spoken")

    def __init__(self, context: Context, seen: int, heard: list[int], opened: set[str], spoken: int = 0) -> None:
        self.context = context
        self.seen = seen
        """Count of turns that it was given, or that were not for it."""
        self.heard = heard
        """Indices of those that it was given, and of its own, without those that it has not in mind itself."""
        self.opened = opened
        """Roles of the seat whose instructions it was given since their scope was entered."""
        self.spoken = spoken
        """How many turns it has made itself."""

    def branch(self) -> Ear:
        """The same, to go on with and to forget."""
        context = Context(list(self.context.ids), self.context.state)
        return Ear(context, self.seen, list(self.heard), set(self.opened), self.spoken)


class Heard(Sequence[Turn]):
    """The turns that a seat has heard when it is asked, made when they are looked at: most agents never do."""

    __slots__ = ("_game", "_indices", "_length")

    def __init__(self, game: Transcript, indices: list[int]) -> None:
        self._game = game
        # The list grows while the episode goes on; what was heard by now is its beginning.
        self._indices = indices
        self._length = len(indices)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Turn: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Turn]: ...

    def __getitem__(self, place: int | slice) -> Turn | Sequence[Turn]:
        indices = self._indices[: self._length][place]
        if isinstance(indices, int):
            return self._game.public_turn(indices)
        return tuple([self._game.public_turn(index) for index in indices])

    def __iter__(self) -> Iterator[Turn]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self[:])

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self[:],)


def public(turn: Turn, node: Node) -> Turn:
    """The turn without tokens, hidden thinking, and what was drawn or computed, which is not for every reader."""
    output = node.output
    fields = {name: turn.fields.get(name) for name in output.fields} if output is not None else {}
    return Turn(
        turn.index, turn.superstep, turn.node, turn.role, turn.visit, turn.agent, turn.answer, turn.text, turn.status,
        turn.quotes, turn.audience, None, None, fields, turn.about, turn.replaces, turn.attempt, turn.sample, turn.kept,
    )  # fmt: skip
