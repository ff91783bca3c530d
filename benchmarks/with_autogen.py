"""The debate as a ``RoundRobinGroupChat`` of AutoGen, of two agents that make their replies themselves.

Teams are reset and used again, which is faster than a new one for every debate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from workload import TEXT, TURNS, prompt, question, run_in_flight

logging.disable(logging.INFO)  # every event would be logged


class _Debater(BaseChatAgent):
    produced_message_types = (TextMessage,)

    def __init__(self, name: str, latency: float) -> None:
        super().__init__(name, "argues for one answer")
        self.latency = latency
        self.asked = ""
        self.turns: list[tuple[str, str]] = []

    async def on_messages(self, messages: Sequence[Any], _: Any) -> Response:
        for message in messages:
            if message.source == "user":
                self.asked = message.content
            else:
                self.turns.append((message.source, message.content))
        prompt(self.name, self.asked, self.turns)
        if self.latency:
            await asyncio.sleep(self.latency)
        self.turns.append((self.name, TEXT))
        return Response(chat_message=TextMessage(content=TEXT, source=self.name))

    async def on_reset(self, _: Any) -> None:
        self.turns.clear()


def play(count: int, latency: float) -> None:
    """Play so many debates."""

    def debates() -> Callable[[int], Awaitable[None]]:
        speakers: list[Any] = [_Debater("pro", latency), _Debater("con", latency)]
        team = RoundRobinGroupChat(speakers, termination_condition=MaxMessageTermination(TURNS + 1))

        async def debate(number: int) -> None:
            ended = await team.run(task=question(number))
            assert len(ended.messages) == TURNS + 1
            await team.reset()

        return debate

    run_in_flight(debates, count)
