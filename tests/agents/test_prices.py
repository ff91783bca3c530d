from __future__ import annotations

import pytest

from arena.agents.prices import Price, Usage, load_prices, price_of, used_by


def test_every_shipped_price_is_plausible() -> None:
    """Output costs more than input, and what the server has already costs less."""
    for model, price in load_prices().items():
        assert 0 < price.input < price.output < 1000, model
        assert price.cached is None or price.cached < price.input, model


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
    assert str(usage) == "m: 1 calls, 10 tokens in (0 cached), 5 out (0 thinking), cost unknown (no price)"


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
    bob.usage.add(10, 5, 20, 7)
    cy.usage.add(100, 0, 200, 0)
    first, second = used_by([ann, bob, ann, object(), cy])
    assert first == Usage("m", price, 2, prompt_tokens=11, cached_tokens=5, completion_tokens=22, thinking_tokens=7)
    assert second == cy.usage
    assert ann.usage.calls == 1
