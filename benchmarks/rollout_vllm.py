"""The same debates over vLLM: played by arena, and their requests sent to the bare engine.

One engine serves both, so that nothing differs but what stands before it. Arena plays a protocol: templates, token
ledger, limits, seeds, transcripts. The bare contestant has all requests at hand, as vLLM wants them, and sends each as
soon as the answer to the one before it in its debate is there. The cache of prefixes is emptied before every run.
"""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from arena.agents.models import open_model
from arena.agents.policy import Policy
from arena.agents.types import Completion, SampleRequest
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.loader import compile_document
from arena.protocols.records import Episode, Task

__all__ = ["installed", "measure"]

_PROTOCOL = """
name: rollout
fields: [question]
roles:
  pro: {{sees: [question], opening: &opening "You take part in a debate. Question: {{{{ question }}}}"}}
  con: {{sees: [question], opening: *opening}}
nodes:
  pro: {{speak: pro, prompt: &prompt "Give your best argument in a few words.", limit: {{tokens: {tokens}}}}}
  con: {{speak: con, prompt: *prompt, limit: {{tokens: {tokens}}}}}
edges:
  - start -> pro -> con -> end
  - {{from: con, to: pro, times: {more}}}
"""

Chain = list[SampleRequest]
"""The requests of a debate, each to be sent when the one before it is answered."""


def installed() -> bool:
    """Whether there is a vLLM to measure."""
    return importlib.util.find_spec("vllm") is not None


def measure(
    spec: Any, *, debates: int, turns: int, tokens: int, repeats: int, dtype: str | None, tell: Callable[[str], None]
) -> dict[str, float]:
    """Measure one model.

    Args:
        spec: of the model; its base answers.
        debates: in flight, and in all.
        turns: of a debate, an even number.
        tokens: most in a turn.
        repeats: pairs of runs; in every other one the bare engine goes first.
        dtype: of the weights in the engine; None: the model's.
        tell: gets a line for every pair.

    Returns:
        ``arena_over_engine``, the median of the pairs' ratios of tokens per second, and the medians of both.
    """
    model = open_model(spec)
    policy = Policy("debater", model, adapter=None, sampler={"kind": "vllm", "dtype": dtype or ""})
    protocol = compile_document(parse_document(_PROTOCOL.format(tokens=tokens, more=turns // 2 - 1)))
    backend: Any = policy.backend

    def play(name: str = "debater@v0") -> list[Episode]:
        agent: Any = policy.agent(max_tokens=tokens, name=name)
        lineup = {"pro": agent, "con": agent}
        plans = [Plan(f"debate/{n}", Task(str(n), {"question": _question(n)}), lineup) for n in range(debates)]
        return Engine(protocol, {}, seed=0, concurrency=debates).play(plans)

    chains = _recorded(backend, play)
    end_ids = model.encoder.end_ids
    contestants: dict[str, Callable[[], int]] = {
        "arena": lambda: _sampled(play()),
        "engine": lambda: backend.engine.loop.run(_replay(backend.engine, chains, end_ids)),
    }
    seen: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(repeats):
        for name in sorted(contestants, reverse=bool(repeat % 2)):
            backend.engine.loop.run(backend.engine.raw.reset_prefix_cache())
            start = time.perf_counter()
            count = contestants[name]()
            seen[name].append(count / (time.perf_counter() - start))
        arena, engine = (seen[name][-1] for name in ("arena", "engine"))
        tell(f"vllm {repeat + 1}/{repeats} arena {arena:,.1f}, engine {engine:,.1f} tokens/s, {arena / engine:.3f}")
    return {
        "arena_over_engine": statistics.median(a / e for a, e in zip(seen["arena"], seen["engine"], strict=True)),
        "tokens_per_second": statistics.median(seen["arena"]),
        "engine_tokens_per_second": statistics.median(seen["engine"]),
    }


def _question(number: int) -> str:
    return f"Which was built first in town {number}, the bridge or the mill?"


def _sampled(episodes: Sequence[Episode]) -> int:
    return sum(len(turn.tokens.ids) for episode in episodes for turn in episode.turns if turn.tokens)


def _recorded(backend: Any, play: Callable[[], list[Episode]]) -> list[Chain]:
    """Play once, which warms all up, and return what was asked in each debate."""
    asked: dict[tuple[int, ...], SampleRequest] = {}
    draw = backend.draw

    async def recording(request: SampleRequest) -> Completion:
        ids = tuple(request.ids)
        asked[ids] = SampleRequest(ids, request.seed, request.sampling, request.max_tokens)
        answer: Completion = await draw(request)
        return answer

    backend.draw = recording
    try:
        episodes = play()
    finally:
        del backend.draw
    return [_chain(episode, asked) for episode in episodes]


def _chain(episode: Episode, asked: dict[tuple[int, ...], SampleRequest]) -> Chain:
    contexts: dict[str, tuple[int, ...]] = {}
    chain = []
    for turn in episode.turns:
        assert turn.tokens is not None
        context = contexts.get(turn.role, ()) + turn.tokens.prompt
        chain.append(asked[context])
        contexts[turn.role] = context + turn.tokens.ids
    return chain


async def _replay(engine: Any, chains: Sequence[Chain], end_ids: Sequence[int]) -> int:
    """Tokens that the bare engine sampled; to be run in its loop."""
    return sum(await asyncio.gather(*(_one(engine.raw, f"{n}", chain, end_ids) for n, chain in enumerate(chains))))


async def _one(llm: Any, name: str, chain: Chain, end_ids: Sequence[int]) -> int:
    from vllm import SamplingParams
    from vllm.inputs.engine import tokens_input
    from vllm.sampling_params import RequestOutputKind

    count = 0
    for number, request in enumerate(chain):
        params = SamplingParams(
            temperature=request.sampling.temperature,
            seed=request.seed & ((1 << 63) - 1),
            max_tokens=request.max_tokens,
            ignore_eos=True,
            stop_token_ids=list(end_ids),
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        async for output in llm.generate(tokens_input(list(request.ids)), params, f"bare-{name}-{number}"):
            count += len(output.outputs[0].token_ids)
    return count
