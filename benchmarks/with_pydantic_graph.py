"""The debate as a graph of pydantic-graph, whose nodes name those that follow (faster than its builder's edges)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext, StepContext
from workload import TEXT, TURNS, prompt, question, run_in_flight


@dataclass
class _State:
    question: str
    latency: float
    turns: list[tuple[str, str]] = field(default_factory=list)

    async def speak(self, role: str) -> None:
        prompt(role, self.question, self.turns)
        if self.latency:
            await asyncio.sleep(self.latency)
        self.turns.append((role, TEXT))


@dataclass
class Pro(BaseNode[_State, None, int]):
    """The first speaker, who has the last word."""

    async def run(self, ctx: GraphRunContext[_State]) -> Con | End[int]:
        """One turn."""
        await ctx.state.speak("pro")
        return End(TURNS) if len(ctx.state.turns) >= TURNS else Con()


@dataclass
class Con(BaseNode[_State, None, int]):
    """The second speaker."""

    async def run(self, ctx: GraphRunContext[_State]) -> Pro:
        """One turn."""
        await ctx.state.speak("con")
        return Pro()


_builder = GraphBuilder(state_type=_State, output_type=int)


@_builder.step
async def _begin(_: StepContext[_State, None, None]) -> Pro:
    return Pro()


_builder.add(_builder.node(Pro), _builder.node(Con), _builder.edge_from(_builder.start_node).to(_begin))
_GRAPH = _builder.build()


def play(count: int, latency: float) -> None:
    """Play so many debates."""

    async def debate(number: int) -> None:
        state = _State(question(number), latency)
        await _GRAPH.run(state=state)
        assert len(state.turns) == TURNS

    run_in_flight(lambda: debate, count)
