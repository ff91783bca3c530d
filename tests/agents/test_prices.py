from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from arena.agents import prices
from arena.agents.prices import Price, Usage, load_prices, price_of, used_by

SHIPPED = Path(prices.__file__).with_name("prices.yaml")


def test_every_shipped_price_is_plausible() -> None:
    """Output costs more than input, and what the server has already costs less."""
    for model, price in load_prices().items():
        assert 0 < price.input < price.output < 1000, model
        assert price.cached is None or price.cached < price.input, model
        # As OpenAI's guide to prompt caching says: 1.25 times the input from GPT-5.6 on, nothing more before it.
        assert price.written == (1.25 * price.input if model >= "gpt-5.6" and model.startswith("gpt") else None), model


def test_every_shipped_price_has_a_date_and_a_place() -> None:
    rows = [line for line in SHIPPED.read_text().splitlines() if not line.startswith("#")]
    assert len(rows) == len(load_prices())
    assert [row for row in rows if not re.search(r"}  +# 202\d-\d\d(-\d\d)?, (page|model)\b", row)] == []


@pytest.mark.parametrize(
    ("model", "cost"), [("gpt-4o", 1.0), ("gpt-4o-2024-08-06", 1.0), ("gpt-4o-mini", 2.0), ("gpt-4", None), ("", None)]
)
def test_a_dated_release_has_the_price_of_its_model(model: str, cost: float | None) -> None:
    prices = {"gpt-4o": Price(input=1, output=1), "gpt-4o-mini": Price(input=2, output=2)}
    found = price_of(model, prices)
    assert (found.input if found else None) == cost


def test_what_was_cached_costs_as_much_as_the_rest_where_no_price_is_given() -> None:
    usage = Usage("m", Price(input=3, output=5))
    usage.add(1_000_000, 400_000, 200_000, 0)
    assert usage.cost == 3 + 1


def test_an_unknown_price_is_no_price_of_zero() -> None:
    usage = Usage("m")
    usage.add(10, 0, 5, 0)
    assert usage.cost is None
    assert str(usage) == "m: 1 calls, 10 tokens in (0 cached), 5 out (0 thinking), " + (
        "cost unknown (no price of it here: give prices=FILE)"
    )


def test_a_model_of_ours_has_no_bill() -> None:
    usage = Usage("m", own=True, from_cache=2)
    usage.add(10, 0, 5, 0)
    assert str(usage) == "m: 1 calls, 2 from the cache, 10 tokens in (0 cached), 5 out (0 thinking)"


def test_what_the_server_puts_into_its_cache_has_a_price_of_its_own() -> None:
    usage = Usage("m", Price(input=4, cached=1, written=5, output=8))
    usage.add(1_000_000, 200_000, 100_000, 0, 300_000)
    assert usage.cost == pytest.approx(0.5 * 4 + 0.2 * 1 + 0.3 * 5 + 0.1 * 8)
    usage.price = Price(input=4, output=8)
    assert usage.cost == pytest.approx(4 + 0.8)


def test_usage_is_told_as_plain_json() -> None:
    usage = Usage("m", Price(input=1, output=2))
    usage.add(1_000_000, 0, 0, 0)
    assert json.loads(json.dumps(usage.plain())) == {
        "model": "m",
        "own": False,
        "calls": 1,
        "from_cache": 0,
        "retries": 0,
        "failed": 0,
        "uncounted": 0,
        "prompt_tokens": 1_000_000,
        "cached_tokens": 0,
        "written_tokens": 0,
        "completion_tokens": 0,
        "thinking_tokens": 0,
        "cost": 1.0,
    }


def test_a_line_tells_what_happened() -> None:
    usage = Usage("m", Price(input=1, output=2), from_cache=3, retries=4, failed=5)
    usage.add(1_500_000, 500_000, 250_000, 1000)
    usage.add(None, 0, None, 0)
    assert str(usage) == (
        "m: 2 calls, 3 from the cache, 4 retries, 5 failed, 1 without usage, 1,500,000 tokens in (500,000 cached), "
        "250,000 out (1,000 thinking), at least 2.0000 USD"
    )


def test_agents_of_one_model_are_added_up_and_each_counts_once() -> None:
    class Speaker:
        def __init__(self, usage: Usage) -> None:
            self.usage = usage

    price = Price(input=1, output=1)
    ann, bob, cy = (Speaker(Usage(model, price)) for model in ("m", "m", "n"))
    ann.usage.add(1, 0, 2, 0)
    bob.usage.add(10, 5, 20, 7, 1)
    cy.usage.add(100, 0, 200, 0)
    first, second = used_by([ann, bob, ann, object(), cy])
    assert first == Usage(
        "m",
        price,
        calls=2,
        prompt_tokens=11,
        cached_tokens=5,
        written_tokens=1,
        completion_tokens=22,
        thinking_tokens=7,
    )
    assert second == cy.usage
    assert ann.usage.calls == 1


def test_what_members_of_a_panel_used_counts_once_too() -> None:
    class Speaker:
        def __init__(self, usage: Usage | None = None, *members: object) -> None:
            self.usage = usage
            self.members = members

    ann, bob = Speaker(Usage("m")), Speaker(Usage("n"))
    assert used_by([Speaker(None, ann, Speaker(None, bob, ann)), bob]) == [ann.usage, bob.usage]
