"""``openai:model=...`` as specs name it."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field

from arena.agents.call_cache import CallCache
from arena.agents.openai.agent import Limits, OpenAIAgent, Settings
from arena.agents.openai.endpoint import OPENAI_URL, Endpoint
from arena.agents.prices import load_prices, price_of
from arena.protocols.errors import ConfigError, MissingExtraError

__all__ = ["openai_agent"]


def openai_agent(
    *,
    model: str,
    base_url: str = OPENAI_URL,
    api_key_env: str = "",
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None,
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None,
    max_tokens: Annotated[int, Field(ge=1)] = 2048,
    seed: bool = True,
    logprobs: Annotated[int, Field(ge=1)] = 20,
    structured: bool = False,
    prefill: bool = False,
    concurrency: Annotated[int, Field(ge=1)] = 16,
    rpm: Annotated[float, Field(gt=0)] | None = None,
    timeout: Annotated[float, Field(gt=0)] = 120.0,
    retries: Annotated[int, Field(ge=0)] = 5,
    max_cost: Annotated[float, Field(gt=0)] | None = None,
    prices: str = "",
    cache: str = "",
    name: str = "",
) -> OpenAIAgent:
    """A model behind an OpenAI-compatible server; see `Settings` and `Limits`.

    Args:
        model: as the server calls it.
        base_url: of the server, usually with ``/v1`` at the end.
        api_key_env: environment variable with the key. OpenAI's own server reads OPENAI_API_KEY if it is empty; no
            other server is ever given that key unless this names it.
        temperature: None leaves it to the server.
        top_p: None leaves it to the server.
        max_tokens: most tokens of a turn, hidden thinking included.
        seed: send the turn's seed.
        logprobs: how many of the likeliest tokens are asked for to score choices.
        structured: the server can hold answers to JSON schemas.
        prefill: the server can go on from the beginning of an answer.
        concurrency: most requests to the endpoint at once.
        rpm: most requests a minute to the endpoint.
        timeout: seconds that a request may take.
        retries: most new tries of a request.
        max_cost: US dollars that this agent may spend.
        prices: YAML file with a price table; empty: the one of the package, which holds for OpenAI's own server.
        cache: folder for answers; empty: none are kept.
        name: key in lineups and ratings; the model if empty.

    Raises:
        MissingExtraError: the SDK is not installed.
        ConfigError: an address, a key or a price that is missing or wrong.
        SourceError: the price table cannot be read.
        StoreError: the cache cannot be written.
    """
    _need_sdk()
    endpoint = Endpoint.at(base_url)
    name = name or model
    table = load_prices(prices) if prices else load_prices() if endpoint.official else {}
    return OpenAIAgent(
        name,
        endpoint,
        Settings(model, temperature, top_p, max_tokens, seed, logprobs, structured, prefill),
        Limits(concurrency, rpm, timeout, retries, max_cost),
        key=_key(name, endpoint, api_key_env),
        price=price_of(model, table),
        cache=CallCache(cache) if cache else None,
    )


def _key(name: str, endpoint: Endpoint, variable: str) -> str:
    if not variable and not endpoint.official:
        return ""
    variable = variable or "OPENAI_API_KEY"
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"agent '{name}' finds no API key in ${variable}: set it, or name another variable by api_key_env=NAME"
        )
    return key


def _need_sdk() -> None:
    try:
        import openai  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("agent 'openai' needs the openai SDK: pip install 'debate-arena[openai]'") from error
