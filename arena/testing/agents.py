"""What an agent promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.agents.types import Act, Agent, Ask
from arena.protocols.records import TurnStatus

__all__ = ["check_agent"]


def check_agent(agent: Agent, make_asks: Callable[[], Sequence[Ask]]) -> None:
    """Check what `arena.agents.types.Agent` promises.

    Every ask has one act, in order, that does not depend on the others; a ledger holds exactly what was added to the
    context.

    Args:
        agent: to be checked.
        make_asks: makes the same asks anew, with fresh contexts, each time it is called; at least two.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    assert agent.name, "an agent has a name"
    asks = make_asks()
    assert len(asks) >= 2, "make at least two asks"
    before = [list(ask.context.ids) for ask in asks]
    acts = list(agent.act(asks))
    assert len(acts) == len(asks), f"{len(asks)} asks had {len(acts)} acts"
    for ask, act, ids in zip(asks, acts, before, strict=True):
        _check_act(ask, act, ids)
    again = list(agent.act(list(make_asks())[::-1]))[::-1]
    _check_alike(acts, again, "the asks in reverse order")
    _check_alike(acts, [agent.act([ask])[0] for ask in make_asks()], "each ask alone")


def _check_act(ask: Ask, act: Act, before: list[int]) -> None:
    assert isinstance(act.text, str), f"the text of an act is a {type(act.text).__name__}"
    assert isinstance(act.status, TurnStatus), f"status {act.status!r} is not a TurnStatus"
    assert act.status is not TurnStatus.TRANSPORT or act.error, "a failed act says why in 'error'"
    span = act.tokens
    if span is None:
        return
    added = [*span.prompt, *span.ids]
    expected = added if span.fresh else before + added
    assert ask.context.ids == expected, "the context is not what the ledger says: earlier ids + prompt + drawn ids"
    if span.logps is not None:
        assert len(span.logps) == len(span.ids), f"{len(span.ids)} ids have {len(span.logps)} log-probs"


def _check_alike(first: Sequence[Act], second: Sequence[Act], how: str) -> None:
    for one, two in zip(first, second, strict=True):
        assert one.text == two.text, f"{how}: {two.text!r} instead of {one.text!r}"
        assert one.status is two.status, f"{how}: status {two.status} instead of {one.status}"
        drawn = [None if act.tokens is None else (act.tokens.prompt, act.tokens.ids) for act in (one, two)]
        assert drawn[0] == drawn[1], f"{how}: other tokens"
