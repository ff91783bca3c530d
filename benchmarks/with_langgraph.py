"""The debate as a compiled ``StateGraph`` of LangGraph, without a checkpointer.

``batch`` is its fastest way to run many graphs whose nodes do not wait, ``ainvoke`` for those that do.
"""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from workload import LATENCY, TEXT, TURNS, prompt, question, run_in_flight


class _State(TypedDict):
    question: str
    turns: Annotated[list[tuple[str, str]], operator.add]


def _at_once(role: str) -> Any:
    def speak(state: _State) -> dict[str, Any]:
        prompt(role, state["question"], state["turns"])
        return {"turns": [(role, TEXT)]}

    return speak


def _later(role: str) -> Any:
    async def speak(state: _State) -> dict[str, Any]:
        prompt(role, state["question"], state["turns"])
        await asyncio.sleep(LATENCY)
        return {"turns": [(role, TEXT)]}

    return speak


def _compiled(speaker: Any) -> Any:
    graph = StateGraph(_State)
    graph.add_node("pro", speaker("pro"))
    graph.add_node("con", speaker("con"))
    graph.add_edge(START, "pro")
    graph.add_conditional_edges("pro", lambda state: END if len(state["turns"]) >= TURNS else "con", ["con", END])
    graph.add_edge("con", "pro")
    return graph.compile()


_FAST, _SLOW = _compiled(_at_once), _compiled(_later)


async def _debate(number: int) -> None:
    ended = await _SLOW.ainvoke({"question": question(number), "turns": []})
    assert len(ended["turns"]) == TURNS


def play(count: int, latency: float) -> None:
    """Play so many debates."""
    if latency:
        run_in_flight(lambda: _debate, count)
        return
    ended = _FAST.batch([{"question": question(number), "turns": []} for number in range(count)])
    assert all(len(state["turns"]) == TURNS for state in ended)
