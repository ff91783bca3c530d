"""The debate in this package: protocol from YAML, seeds, token ledger, every debate committed to SQLite."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from typing import Any

from workload import IN_FLIGHT, LATENCY, OPENING, PROMPT, SIDES, TEXT, question

from arena.agents.types import Act, Ask
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.loader import compile_document
from arena.protocols.records import Sampling, Task, TokenSpan
from arena.store import Store

# One id for about four characters, as subword vocabularies have it.
_TOLD, _SAID = tuple(range(1000, 2000)), tuple(range(5000, 5000 + len(TEXT) // 4))
_SAMPLING = Sampling()


def _template(text: str, answer: str) -> str:
    """As YAML: JSON strings are YAML too."""
    return json.dumps(text.format(answer=answer, question="{{ question }}", round="{{ round }}"))


_PROTOCOL = compile_document(
    parse_document(
        "name: bench\n"
        "fields: [question]\n"
        "roles:\n"
        + "".join(f"  {role}: {{sees: [question], opening: {_template(OPENING, a)}}}\n" for role, a in SIDES.items())
        + "nodes:\n"
        + "".join(f"  {role}: {{speak: {role}, prompt: {_template(PROMPT, a)}}}\n" for role, a in SIDES.items())
        + "edges:\n"
        "  - start -> pro -> con -> end\n"
        "  - {from: pro, to: end, when: round >= 4}\n"
        "  - {from: con, to: pro, times: 3}\n"
    )
)


def _act(ask: Ask) -> Act:
    told = _TOLD[: sum(len(message.text) for message in ask.new) // 4]
    ask.context.ids += told
    ask.context.ids += _SAID
    return Act(TEXT, tokens=TokenSpan(told, _SAID, None, "bench@v1", _SAMPLING))


class _Scripted:
    name = "bench@v1"

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        return [_act(ask) for ask in asks]


class _Remote:
    name = "bench@v1"

    async def answer(self, ask: Ask) -> Act:
        await asyncio.sleep(LATENCY)
        return _act(ask)


def play(count: int, latency: float) -> None:
    """Play so many debates."""
    agent: Any = _Remote() if latency else _Scripted()
    lineup = dict.fromkeys(SIDES, agent)
    plans = (Plan(f"debate/{k}", Task(str(k), {"question": question(k)}), lineup) for k in range(count))
    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        run = store.begin("bench", {}, created="")
        with run.writer("bench") as write:  # as `arena run` stores
            for episodes in Engine(_PROTOCOL, {}, seed=0, concurrency=IN_FLIGHT).stream(plans):
                write(episodes)
        assert len(run.finished("bench")) == count
