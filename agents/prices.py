"""What calls of a model cost: price tables, and a ledger of what was used.

A table is a YAML file (`prices.yaml` beside this module is one): model -> US dollars for a million tokens. A model
without a price has an unknown cost, never a cost of zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from arena.protocols.documents import read_document, validate_model

__all__ = ["Price", "Usage", "load_prices", "price_of", "used_by"]

_SHIPPED = Path(__file__).with_name("prices.yaml")
_MILLION = 1_000_000
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(BaseModel):
    """US dollars for a million tokens of one model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0)
    """Of the request."""
    cached: float | None = Field(None, ge=0)
    """Of the request, where the server had them in its cache; as ``input`` if None."""
    written: float | None = Field(None, ge=0)
    """Of the request, where the server put them into its cache; as ``input`` if None."""
    output: float = Field(ge=0)
    """Drawn, hidden thinking included."""


class _Table(RootModel[dict[str, Price]]):
    """Model -> price."""


def load_prices(path: str | Path = _SHIPPED) -> Mapping[str, Price]:
    """Read a price table; the one that comes with the package by default.

    Raises:
        SourceError: it cannot be read, or is of another form.
    """
    return validate_model(read_document(path), _Table).root


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, or of the model that it is a dated release of (``gpt-4o-2024-08-06``); None if unknown."""
    return prices.get(model) or prices.get(_DATED.sub("", model))


@dataclass(slots=True)
class Usage:
    """What was used of one model."""

    model: str
    price: Price | None = None
    own: bool = False
    """The model runs on machines of ours: nobody sends a bill."""
    calls: int = 0
    """Answers of the server."""
    from_cache: int = 0
    """Answers of our own call cache, which cost nothing."""
    retries: int = 0
    """Requests that were made again."""
    failed: int = 0
    """Calls that had no answer in the end."""
    uncounted: int = 0
    """Answers for which the server told no usage: their tokens and cost are missing here."""
    prompt_tokens: int = 0
    """Tokens of the requests, ``cached_tokens`` and ``written_tokens`` included."""
    cached_tokens: int = 0
    written_tokens: int = 0
    completion_tokens: int = 0
    """Tokens drawn, ``thinking_tokens`` included."""
    thinking_tokens: int = 0

    def add(
        self,
        prompt_tokens: int | None,
        cached_tokens: int,
        completion_tokens: int | None,
        thinking_tokens: int,
        written_tokens: int = 0,
    ) -> None:
        """Count an answer of the server; None where it told no usage."""
        self.calls += 1
        if prompt_tokens is None or completion_tokens is None:
            self.uncounted += 1
            return
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens
        self.written_tokens += written_tokens
        self.completion_tokens += completion_tokens
        self.thinking_tokens += thinking_tokens

    @property
    def cost(self) -> float | None:
        """US dollars for what was counted; None if the price is unknown."""
        price = self.price
        if price is None:
            return None
        cached = price.input if price.cached is None else price.cached
        written = price.input if price.written is None else price.written
        fresh = self.prompt_tokens - self.cached_tokens - self.written_tokens
        request = fresh * price.input + self.cached_tokens * cached + self.written_tokens * written
        return (request + self.completion_tokens * price.output) / _MILLION

    def plain(self) -> dict[str, Any]:
        """All counts and the cost as JSON values."""
        counts = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "price"}
        return {**counts, "cost": self.cost}

    def __str__(self) -> str:
        """One line for the end of a run."""
        parts = [f"{self.calls:,} calls"]
        counts = {
            "from the cache": self.from_cache,
            "retries": self.retries,
            "failed": self.failed,
            "without usage": self.uncounted,
        }
        parts += [f"{count:,} {what}" for what, count in counts.items() if count]
        parts.append(f"{self.prompt_tokens:,} tokens in ({self.cached_tokens:,} cached)")
        parts.append(f"{self.completion_tokens:,} out ({self.thinking_tokens:,} thinking)")
        if not self.own:
            parts.append(self._bill())
        return f"{self.model}: {', '.join(parts)}"

    def _bill(self) -> str:
        cost = self.cost
        if cost is None:
            return "cost unknown (no price of it here: give prices=FILE)"
        return f"{'at least ' if self.uncounted else ''}{cost:.4f} USD"


def used_by(speakers: Iterable[object]) -> list[Usage]:
    """What agents and judges used, each counted once: one entry a model and price, in order.

    Args:
        speakers: those without a ``usage`` used nothing; those with ``members`` (panels) also what their members used.
    """
    total: dict[tuple[str, Price | None, bool], Usage] = {}
    for speaker in {id(speaker): speaker for speaker in _with_members(speakers)}.values():
        usage = getattr(speaker, "usage", None)
        if isinstance(usage, Usage):
            key = usage.model, usage.price, usage.own
            total[key] = _sum(total[key], usage) if key in total else usage
    return list(total.values())


def _with_members(speakers: Iterable[object]) -> Iterator[object]:
    for speaker in speakers:
        yield speaker
        yield from _with_members(getattr(speaker, "members", ()))


def _sum(one: Usage, other: Usage) -> Usage:
    counts = [each.name for each in fields(Usage) if each.name not in ("model", "price", "own")]
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in counts})
