"""The debate that all contestants play: two speakers in turn, three rounds and a last word, seven turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

TURNS = 7
IN_FLIGHT = 512
LATENCY = 0.05
"""Seconds that each turn takes, where latency is simulated."""

SIDES = {"pro": "the bridge", "con": "the mill"}
TEXT = (
    "The passage says so in plain words: the bridge was opened in the spring, four years before the mill was built, "
    "and no line of it says otherwise."
)
"""What everybody says."""

OPENING = (
    "You take part in a debate about a question. You argue that the answer is {answer}. Your opponent argues for "
    "another one. A judge who cannot look anything up reads both of you and decides.\n\nQuestion: {question}\n"
)
PROMPT = "Round {round}: give your best argument for {answer} in at most 60 words."


def question(number: int) -> str:
    """A question of its own for every debate."""
    return f"Which was built first in town {number}, the bridge or the mill?"


def prompt(role: str, asked: str, turns: list[tuple[str, str]]) -> str:
    """What a speaker is told, as peers render it: instructions, all turns so far, and what is asked now."""
    heard = "\n".join(f"{speaker}: {text}" for speaker, text in turns)
    opening = OPENING.format(answer=SIDES[role], question=asked)
    return f"{opening}\n{heard}\n{PROMPT.format(round=len(turns) // 2 + 1, answer=SIDES[role])}"


def run_in_flight(debates: Callable[[], Callable[[int], Awaitable[None]]], count: int) -> None:
    """Play all debates on an event loop, at most `IN_FLIGHT` at a time: each worker takes the next when it is done.

    Args:
        debates: called once by each worker; what it returns plays a debate of that number.
        count: how many.
    """
    numbers = iter(range(count))

    async def worker() -> None:
        debate = debates()
        for number in numbers:
            await debate(number)

    async def everything() -> None:
        await asyncio.gather(*(worker() for _ in range(min(IN_FLIGHT, count))))

    asyncio.run(everything())
