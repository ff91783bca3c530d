"""Saying one of several texts: the tokens are drawn along the trie of what may be said.

Where the texts part, one token is drawn among those that go on (``SampleRequest.allowed``); what all that are left have
in common is certain and costs nothing. So log-probs are those of the constrained distribution,

    log p(text) = sum over the forks of log [ p(token) / sum of p over the fork ],

and any backend that can draw one token out of some can do it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from arena.agents.encoders import Encoder
from arena.agents.sampling import branch_seed
from arena.agents.types import Ask, Completion, SampleRequest

__all__ = ["Drawn", "choices_of", "draw_choice"]

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The ids of a turn, and for each which ids it was drawn from (None: from all, for the whole turn)."""

    completion: Completion
    allowed: tuple[Ids, ...] | None = None


def choices_of(ask: Ask, encoder: Encoder) -> list[Ids] | None:
    """What may be said, one list of ids for each option; None if the turn is free.

    The whole turn has to be the choice: where it stands in a tag, or is preceded by hidden thinking, there is more to
    say. An option ends with the end token, unless the vocabulary is one of words, where no option begins another.

    Raises:
        ConfigError: the model cannot say an option.
    """
    rule = ask.output
    if rule is None or rule.kind != "choice" or rule.place or ask.max_thinking is not None:
        return None
    if encoder.opens_thinking(ask.context):
        return None
    cue = next((message.text for message in reversed(ask.new) if message.kind == "cue"), "")
    space = " " if cue and not cue[-1].isspace() else ""
    bare = [tuple(encoder.encode_turn(space + text, end=False)) for text in ask.options or rule.choices]
    if len(set(bare)) < len(bare) or not all(bare):
        return None
    nested = any(one == two[: len(one)] for one in bare for two in bare if one is not two)
    if encoder.one_token_turns and not nested:
        return bare
    return [(*ids, encoder.end_ids[0]) for ids in bare]


def draw_choice(
    request: SampleRequest, options: Sequence[Ids]
) -> Generator[SampleRequest, Completion | str | None, Drawn | str]:
    """Draw one of the options after the request's context, or say what went wrong.

    Args:
        request: its seed gives the first fork, and seeds that derive from it the others.
        options: none begins with another one.
    """
    ids: list[int] = []
    logps: list[float] = []
    allowed: list[Ids] = []
    left, fork = list(options), 0
    while len(left) > 1 or len(ids) < len(left[0]):
        ways = tuple(sorted({option[len(ids)] for option in left}))
        token, logp = ways[0], 0.0
        if len(ways) > 1:
            seed = request.seed if fork == 0 else branch_seed(request.seed, fork)
            answer = yield SampleRequest([*request.ids, *ids], seed, request.sampling, 1, ways)
            if isinstance(answer, str):
                return answer
            assert answer is not None
            (token,), (logp,) = answer.ids, answer.logps
            fork += 1
        left = [option for option in left if option[len(ids)] == token]
        ids.append(token)
        logps.append(logp)
        allowed.append(ways)
    return Drawn(Completion(tuple(ids), tuple(logps), "stop"), tuple(allowed))
