"""``cache=DIR`` of agents that sample from weights: a second run is the first, token by token, without the model."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from arena.agents import AGENTS, AsyncPolicyAgent, Policy, PolicyAgent, SampleRequest
from arena.agents.backend_hf import ContinuousHFBackend, HFBackend
from arena.agents.call_cache import AsyncCachedBackend, CachedBackend, CallCache, with_cache
from arena.agents.models import add_lora, open_model
from arena.agents.scripted import from_list
from arena.agents.weights import FrozenWeights
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.errors import ConfigError
from arena.protocols.loader import compile_document
from arena.protocols.records import Episode, Sampling, Task
from arena.testing import check_backend

TALK = """
name: talk
fields: [question]
roles: {speaker: {sees: [question], opening: "Say ab."}, other: {sees: [question]}}
nodes:
  say: {speak: speaker, prompt: "{{ question }}", limit: {tokens: 6}}
  pick: {speak: speaker, output: {choice: [ab, ba, aa]}}
  reply: {speak: other}
edges: [start -> say -> pick -> reply -> end, {from: reply, to: say, times: 2}]
"""


@pytest.fixture
def saved(shared: Any, tmp_path: Path) -> Path:
    """A chat model with an adapter, as training would save it."""
    folder: Path = shared.letters(lora=1).save(tmp_path / "gen1")
    return folder


def build(folder: Path, cache: Path | None, **more: Any) -> PolicyAgent:
    spec = {"kind": "generation", "path": str(folder), "max_tokens": 6, **more}
    agent = AGENTS.build(spec if cache is None else {**spec, "cache": str(cache)})
    assert isinstance(agent, PolicyAgent)
    return agent


def play(agent: PolicyAgent, count: int = 3) -> list[Episode]:
    lineup: Any = {"speaker": agent, "other": from_list(["abab", "ba"])}
    plans = [Plan(f"e{n}", Task(f"t{n}", {"question": "ba" * (n + 1)}), lineup) for n in range(count)]
    return Engine(compile_document(parse_document(TALK)), {}, seed=3).play(plans)


def used(agent: PolicyAgent) -> tuple[int, int]:
    assert agent.usage is not None
    return agent.usage.calls, agent.usage.from_cache


def test_a_second_run_is_the_first_one_without_the_model(saved: Path, tmp_path: Path) -> None:
    bare = play(build(saved, None))
    first, again = build(saved, tmp_path / "kept"), build(saved, tmp_path / "kept")
    assert play(first) == bare
    calls, hits = used(first)
    assert calls > 0
    assert hits == 0
    assert play(again) == bare  # ids, log-probs, allowed ids, policy: all that a turn records
    assert used(again) == (0, calls)


def test_a_cache_knows_nothing_of_agents_without_one(saved: Path) -> None:
    agent = build(saved, None)
    assert agent.usage is None
    assert type(agent.backend) is ContinuousHFBackend


def test_models_of_words_are_cached_by_whole_supersteps(tmp_path: Path) -> None:
    agent = AGENTS.build({"kind": "tiny", "words": "ab ba aa", "hidden": 16, "heads": 2, "cache": str(tmp_path)})
    assert isinstance(agent, PolicyAgent)
    assert type(agent.backend) is CachedBackend
    assert not isinstance(agent, AsyncPolicyAgent)
    requests = [SampleRequest([1, 3], seed, Sampling(), 2) for seed in range(5)]
    first = agent.backend.generate(requests)
    assert agent.backend.generate(requests) == first
    assert used(agent) == (5, 5)


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"name": "other"},
        {"max_tokens": 5},
        {"backend": "hf:max_batch=2"},
    ],
)
def test_another_sampling_name_limit_or_backend_asks_anew(saved: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    play(build(saved, tmp_path / "kept"))
    other = build(saved, tmp_path / "kept", **change)
    play(other)
    assert used(other)[0] > 0


def test_a_new_version_of_an_adapter_never_hits_an_old_entry(saved: Path, shared: Any, tmp_path: Path) -> None:
    """Under the same name and in the same place, as a run that was started again would leave it."""
    old = build(saved, tmp_path / "kept")
    play(old)
    model = shared.letters(lora=1)
    shared.shift(model, 7, 0.01)
    model.save(saved)
    del old  # else its network is shared
    new = build(saved, tmp_path / "kept")
    assert play(new) == play(build(saved, None))
    assert used(new)[0] > 0
    assert all(turn.tokens.policy == "gen1" for e in play(new) for turn in e.turns if turn.tokens is not None)


def test_a_hit_of_another_seed_or_candidate_is_none(saved: Path, tmp_path: Path) -> None:
    agent = build(saved, tmp_path / "kept")
    request = SampleRequest([1, 2, 3], 5, Sampling(), 4)
    backend = agent.backend
    backend.generate([request, replace(request, seed=6), request])
    assert used(agent) == (2, 1)


def test_a_cached_backend_that_takes_requests_one_by_one_keeps_its_promises(saved: Path, tmp_path: Path) -> None:
    agent = build(saved, tmp_path / "kept")
    assert type(agent.backend) is AsyncCachedBackend
    check_backend(agent.backend, [[1, 3], [1, 3, 4, 5]])
    request = SampleRequest([1, 2, 3], 5, Sampling(), 4)
    assert [asyncio.run(agent.backend.draw(request))] == agent.backend.generate([request])


# Training


def test_a_model_that_is_trained_is_not_answered_for_by_a_cache(tmp_path: Path) -> None:
    model = add_lora(open_model({"kind": "tiny", "words": ["a", "b"], "hidden": 16, "heads": 2}))
    backend = with_cache(HFBackend(model, "p@v0"), CallCache(tmp_path), FrozenWeights(model).digest)
    request = SampleRequest([1, 3], 0, Sampling(), 2)
    backend.generate([request])
    with torch.no_grad():
        next(w for name, w in model.network.named_parameters() if "lora_B" in name).add_(1.0)
    with pytest.raises(ConfigError, match="were changed or moved"):
        backend.generate([request])


def test_weights_that_change_while_they_answer_leave_no_answer(tmp_path: Path) -> None:
    model = open_model({"kind": "tiny", "words": ["a", "b"], "hidden": 16, "heads": 2})
    inner = HFBackend(model, "p@v0")

    class Trained:
        policy = "p@v0"

        def generate(self, requests: Any) -> Any:
            with torch.no_grad():
                next(iter(model.network.parameters())).add_(1.0)
            return inner.generate(requests)

        def score(self, requests: Any) -> Any:
            return inner.score(requests)

    cache, request = CallCache(tmp_path), SampleRequest([1, 3], 0, Sampling(), 2)
    old = FrozenWeights(model)
    name = old.digest()
    with pytest.raises(ConfigError, match="were changed or moved"):
        with_cache(Trained(), cache, old.digest).generate([request])
    fresh = with_cache(inner, cache, name)
    fresh.generate([request])
    assert (fresh.usage.calls, fresh.usage.from_cache) == (1, 0)


def test_no_backend_of_a_policy_in_training_is_a_cached_one(shared: Any) -> None:
    """A policy's backend is made by `BACKENDS`, and delivers new versions; a cache does not."""
    policy = Policy("p", shared.letters(lora=1))
    assert not isinstance(policy.backend, CachedBackend)
    assert not isinstance(policy.agent().backend, CachedBackend)
    assert not hasattr(CachedBackend, "update")


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "tiny", "words": ["a"]},
        {"kind": "hf", "model": "nobody/nothing"},
        {"kind": "generation", "path": "."},
    ],
)
def test_models_as_recipes_name_them_keep_no_answers(spec: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cache"):
        open_model({**spec, "cache": str(tmp_path)})


def test_what_is_kept_is_plain_json_with_exact_numbers(saved: Path, tmp_path: Path) -> None:
    agent = build(saved, tmp_path / "kept")
    request = SampleRequest([1, 2, 3], 5, Sampling(), 4)
    (answer,) = agent.backend.generate([request])
    connection = sqlite3.connect(tmp_path / "kept" / "calls.sqlite")
    ((text,),) = connection.execute("SELECT answer FROM calls").fetchall()
    connection.close()
    kept = json.loads(text)
    assert (tuple(kept["ids"]), tuple(kept["logps"]), kept["finish"]) == (answer.ids, answer.logps, answer.finish)
