"""An agent that passes on what it heard, with noise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from arena.agents import AGENTS
from arena.agents.scripted import fixed
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task

TASK = Task("t", {"question": "0 0 0 0 0 0", "solution": "0 0 0 0 0 0", "places": tuple(f"P{n}" for n in range(1, 7))})

DIGITS: dict[str, Any] = {"kind": "noisy-channel", "words": "{0..9}"}


def played(spec: str | dict[str, Any], count: int, draft: str = "0 0 0 0 0 0", seed: int = 0) -> list[Episode]:
    lineup = {
        "proposer": fixed(draft),
        "channel": AGENTS.build(spec),
        "critic": AGENTS.build("random"),
        "reviser": AGENTS.build("random"),
    }
    return Engine(load_protocol("noisy-revision"), {}, seed=seed).play(
        [Plan(str(number), TASK, lineup) for number in range(count)]
    )


def received(episodes: list[Episode]) -> list[str]:
    return [turn.text for episode in episodes for turn in episode.turns if turn.node == "received"]


def test_each_word_is_replaced_at_the_rate_by_any_of_the_words() -> None:
    words = " ".join(received(played(DIGITS | {"rate": 0.5}, 500))).split()
    shares = Counter(words)
    assert len(words) == 3000
    assert shares["0"] / 3000 == pytest.approx(0.5 + 0.05, abs=0.03)  # four standard deviations
    assert all(shares[str(digit)] / 3000 == pytest.approx(0.05, abs=0.016) for digit in range(1, 10))


def test_a_share_of_right_drafts_arrives_right() -> None:
    """With rate .1 and ten words a digit stays what it is with .91, and six of them with .91 ** 6."""
    arrived = received(played(DIGITS, 1500))
    assert arrived.count("0 0 0 0 0 0") / 1500 == pytest.approx(0.91**6, abs=0.051)


def test_the_noise_depends_on_run_and_episode_alone() -> None:
    spec = DIGITS | {"rate": 0.5}
    assert received(played(spec, 20)) == received(played(spec, 40))[:20]
    assert received(played(spec, 20)) != received(played(spec, 20, seed=1))
    assert len(set(received(played(spec, 20)))) > 15


def test_without_a_rate_everything_passes_and_with_a_full_one_nothing_is_safe() -> None:
    assert set(received(played("noisy-channel:words=9,rate=0", 3, "1 2"))) == {"1 2"}
    assert set(received(played("noisy-channel:words=9,rate=1", 3, "1 2"))) == {"9 9"}
    assert set(received(played("noisy-channel:words=9,rate=1", 3, ""))) == {""}


def test_critics_never_read_what_was_sent() -> None:
    (episode,) = played("noisy-channel:words=9,rate=1", 1, "1 2 3 4 5 6")
    draft = next(turn for turn in episode.turns if turn.node == "draft")
    arrived = next(turn for turn in episode.turns if turn.node == "received")
    assert arrived.text == "9 9 9 9 9 9"
    assert arrived.replaces == draft.index


@pytest.mark.parametrize(
    "spec", ["noisy-channel", "noisy-channel:words=", "noisy-channel:words=a,rate=1.5", "noisy-channel:words=a,rate=-1"]
)
def test_a_channel_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"words|rate"):
        AGENTS.build(spec)
