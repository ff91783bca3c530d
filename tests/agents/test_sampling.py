from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.agents.sampling import check_sampling, draw, hash_index, uniforms
from arena.protocols.errors import ConfigError, NumericalError
from arena.protocols.records import Sampling

M = (1 << 64) - 1


def splitmix(state: int, count: int) -> list[int]:
    """The published generator, in plain integers."""
    out = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & M
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
        out.append(z ^ (z >> 31))
    return out


def test_the_stream_of_a_seed_is_splitmix64_started_at_its_first_output() -> None:
    # First outputs for seed 0, as in the reference implementation of Vigna.
    assert splitmix(0, 3) == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    for seed in (0, 1, 2**63, M):
        expected = [(z >> 11) / 2**53 for z in splitmix(splitmix(seed, 1)[0], 4)]
        assert uniforms([seed] * 4, range(4)).tolist() == expected  # type: ignore[arg-type]


def test_uniforms_of_neighbouring_seeds_and_positions_are_uniform_and_uncorrelated() -> None:
    u = uniforms(range(4096), 0)
    assert abs(u.mean() - 0.5) < 4 / math.sqrt(12 * 4096)
    counts = np.histogram(u, bins=16, range=(0, 1))[0]
    assert ((counts - 256) ** 2 / 256).sum() < 45  # chi-square, 15 degrees of freedom, p about 1e-4
    assert abs(np.corrcoef(u, uniforms(range(4096), 1))[0, 1]) < 0.07
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.07


def test_hash_index_stays_in_range_and_reaches_everything() -> None:
    assert {hash_index(seed, 5) for seed in range(200)} == set(range(5))


def reference(logits: list[float], u: float, sampling: Sampling) -> tuple[int, float]:
    """One draw by the definitions, in plain numbers: top-k, then top-p, then the inverse of the cumulative sum."""
    scaled = [x / sampling.temperature for x in logits]
    ranked = sorted(range(len(scaled)), key=lambda i: (-scaled[i], i))
    if sampling.top_k:
        ranked = ranked[: sampling.top_k]
    weights = {i: math.exp(scaled[i] - max(scaled)) for i in ranked}
    total, before, kept = sum(weights.values()), 0.0, []
    for i in ranked:
        if before / total < sampling.top_p:
            kept.append(i)
        before += weights[i]
    total = sum(weights[i] for i in kept)
    running = 0.0
    for i in sorted(kept):
        running += weights[i] / total
        if running > u:
            return i, math.log(weights[i] / total)
    raise AssertionError("u is beyond the distribution")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-600, 600).map(lambda n: n / 100), min_size=2, max_size=12, unique=True),
    st.integers(0, M),
    st.integers(0, 300),
    st.sampled_from([0.6, 1.0, 1.3]),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([0.3, 0.9, 1.0]),
)
def test_a_draw_is_the_inverse_cdf_of_the_truncated_distribution(
    logits: list[float], seed: int, position: int, temperature: float, top_k: int, top_p: float
) -> None:
    sampling = Sampling(temperature, top_p, top_k)
    ids, logps = draw(torch.tensor([logits], dtype=torch.float64), [seed], position, sampling)
    expected_id, expected_logp = reference(logits, float(uniforms([seed], position)[0]), sampling)
    assert ids[0] == expected_id
    assert logps[0] == pytest.approx(expected_logp, abs=1e-9)


def test_a_draw_does_not_depend_on_the_other_rows() -> None:
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(0))
    together = draw(logits, range(7), 3)
    for row in range(7):
        assert draw(logits[row : row + 1], [row], 3) == ([together[0][row]], [together[1][row]])
    shared = draw(logits, [4, 5, 4], 3, rows_B=[2, 2, 4])
    assert shared[0][2] == together[0][4]


def test_temperature_zero_takes_the_most_likely_allowed_id_with_log_prob_zero() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.0, 2.5]])
    assert draw(logits, [1], 0, Sampling(0.0)) == ([1], [0.0])
    assert draw(logits, [1], 0, Sampling(0.0), allowed=[0, 2]) == ([2], [0.0])


def test_allowed_ids_are_renormalised() -> None:
    logits = torch.tensor([[0.0, math.log(3.0), 50.0]])
    drawn = [draw(logits, [seed], 0, allowed=[1, 0]) for seed in range(40)]
    assert {ids[0] for ids, _ in drawn} == {0, 1}
    for ids, logps in drawn:
        assert logps[0] == pytest.approx(math.log([0.25, 0.75][ids[0]]), abs=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_diverged_logits_are_an_error_and_not_a_token(bad: float) -> None:
    with pytest.raises(NumericalError, match="diverged"):
        draw(torch.tensor([[0.0, 1.0], [bad, 0.0]]), [1, 2], 0)


@pytest.mark.parametrize("bad", [Sampling(-0.1), Sampling(float("nan")), Sampling(1.0, 0.0), Sampling(1.0, 1.0, -1)])
def test_sampling_out_of_range_is_refused(bad: Sampling) -> None:
    with pytest.raises(ConfigError):
        check_sampling(bad)
