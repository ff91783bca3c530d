"""Drawing tokens so that a draw depends on its own request alone.

A generator that is shared by a batch makes the tenth answer depend on the first nine. Here the random number of a
token is a hash of (seed of the turn, position in the turn), and the token is the inverse of the cumulative
distribution at it: neither the batch, nor its order, nor padding enters.

    u = mix(mix(seed) + (position + 1) * golden)        mix: the finaliser of SplitMix64 (Steele et al. 2014, OOPSLA)
    id = min { v : P(0) + ... + P(v) > u }              in float64
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from arena.protocols.errors import ConfigError, NumericalError
from arena.protocols.records import Sampling

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["branch_seed", "check_sampling", "draw", "hash_index", "uniforms"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1
_BRANCHES = 1 << 63
PLAIN = Sampling()


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(seeds_B: Sequence[int], positions_B: Sequence[int] | int) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1), shape (B,), float64: a pure function of each (seed, position)."""
    return (_bits(seeds_B, positions_B) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _bits(seeds_B: Sequence[int], positions_B: Sequence[int] | int) -> npt.NDArray[np.uint64]:
    seeds = np.array([seed & _MASK for seed in seeds_B], dtype=np.uint64)
    # An array even for one position: numpy warns of the overflow that is meant here where a scalar wraps around.
    steps = np.array(positions_B, dtype=np.uint64, ndmin=1) + np.uint64(1)
    return _mix(_mix(seeds + _GOLDEN) + steps * _GOLDEN)


def branch_seed(seed: int, branch: int) -> int:
    """The seed of a stream of its own for each number of a branch, apart from the draws of ``seed`` itself."""
    return int(_bits([seed], _BRANCHES + branch)[0])


def hash_index(seed: int, count: int, position: int = 0) -> int:
    """A number in ``range(count)``, uniform over seeds, for programs that choose at random."""
    return int(float(uniforms([seed], position)[0]) * count)


def check_sampling(sampling: Sampling) -> Sampling:
    """Return ``sampling``, or say what is wrong with it.

    Raises:
        ConfigError: a value out of range.
    """
    if not 0.0 <= sampling.temperature < float("inf"):
        raise ConfigError(f"temperature {sampling.temperature!r} is not a number of 0 or more")
    if not 0.0 < sampling.top_p <= 1.0:
        raise ConfigError(f"top_p {sampling.top_p!r} is not in (0, 1]; 1 keeps all tokens")
    if sampling.top_k < 0:
        raise ConfigError(f"top_k {sampling.top_k!r} is negative; 0 keeps all tokens")
    return sampling


def draw(
    logits_UV: Tensor,
    seeds_B: Sequence[int],
    positions_B: Sequence[int] | int,
    sampling: Sampling = PLAIN,
    *,
    allowed: Sequence[int] | None = None,
    rows_B: Sequence[int] | None = None,
) -> tuple[list[int], list[float]]:
    """Draw one token for each of B requests.

    Args:
        logits_UV: one row of logits for each distinct context, any float dtype.
        seeds_B: 64-bit seed of each request's random stream.
        positions_B: which draw of its stream it is, counted from 0.
        sampling: temperature, then top-k, then top-p (as in transformers).
        allowed: if given, only these ids may be drawn.
        rows_B: row of ``logits_UV`` for each request; the b-th row for the b-th request if None.

    Returns:
        ids and their log-probs in nats under the distribution that they were drawn from. At temperature 0 the most
        likely id (the lowest one of equals) with log-prob 0: the limit of small temperatures.

    Raises:
        NumericalError: the logits of a row hold nan or +inf, or nothing that may be drawn.
    """
    import torch

    logits = logits_UV.double()
    columns = None if allowed is None else torch.as_tensor(list(allowed), device=logits.device)
    if columns is not None:
        logits = logits[:, columns]
    peak = logits.max(dim=-1, keepdim=True)
    if not bool(
        torch.isfinite(peak.values).all()
    ):  # max lets nan through, so this one look finds nan, +inf and all -inf
        raise NumericalError("the model's logits hold nan or inf, or no id may be drawn; its weights have diverged")
    rows = None if rows_B is None else torch.as_tensor(rows_B, device=logits.device)
    if sampling.temperature == 0.0:
        picked = peak.indices if rows is None else peak.indices[rows]
        ids = picked[:, 0]
        logps = torch.zeros(len(ids), dtype=torch.float64)
    else:
        logps_UV = _truncated((logits - peak.values) / sampling.temperature, sampling).log_softmax(dim=-1)
        cdf_UV = logps_UV.exp().cumsum(dim=-1)
        u_B = torch.from_numpy(uniforms(seeds_B, positions_B)).to(logits.device)
        cdf_BV = cdf_UV if rows is None else cdf_UV[rows]
        ids = torch.searchsorted(cdf_BV, u_B[:, None] * cdf_BV[:, -1:], right=True).clamp_(max=logits.shape[1] - 1)[
            :, 0
        ]
        logps = logps_UV[torch.arange(len(ids), device=ids.device) if rows is None else rows, ids]
    if columns is not None:
        ids = columns[ids]
    return ids.tolist(), logps.tolist()


def _truncated(logits_UV: Tensor, sampling: Sampling) -> Tensor:
    """Top-k, then top-p: the smallest set of most likely ids whose probability reaches top_p; others to -inf."""
    vocabulary = logits_UV.shape[-1]
    if not (0 < sampling.top_k < vocabulary) and sampling.top_p >= 1.0:
        return logits_UV
    ranked, order = logits_UV.sort(dim=-1, descending=True, stable=True)
    if 0 < sampling.top_k < vocabulary:
        ranked[:, sampling.top_k :] = float("-inf")
    if sampling.top_p < 1.0:
        p_UV = ranked.softmax(dim=-1)
        # An id goes if those before it already reach top_p, so the first one always stays.
        ranked = ranked.masked_fill(p_UV.cumsum(dim=-1) - p_UV >= sampling.top_p, float("-inf"))
    return ranked.new_empty(ranked.shape).scatter_(-1, order, ranked)
