"""One policy and its optimizer: KL-constrained policy gradients and supervised warm starts.

    loss = sum_t w_t [ clipped surrogate(log pi_t - log pi_old_t, A_t) + beta KL(pi || reference)_t ]

The weights w are those of the whole optimizer step, so micro-batches of any size give the same gradient. Sequences are
packed as token trees (`arena.training.packing`): each shared prefix is computed once, with gradient. Hidden states are
gathered where a trained token is predicted and only those meet the output layer; logits of (batch, time, vocabulary)
never exist. The network stays in evaluation mode: dropout would make the ratio of step 0 differ from 1.

The reference is a snapshot of the trainable weights (or, for LoRA, the adapter switched off). Log-probs are taken at
the temperature of the sampler, and so is the KL.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer

from arena.protocols.errors import ConfigError, NumericalError, ResumeError
from arena.training.kl_control import KLController
from arena.training.learner_config import (
    ImportanceConfig,
    KLConfig,
    LearnerConfig,
    ObjectiveConfig,
    OptimizerConfig,
    learning_rate,
)
from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import token_weights
from arena.training.objectives.importance import sampler_weights
from arena.training.objectives.kl import kl_from_logps, kl_per_token
from arena.training.objectives.policy_gradient import policy_loss, score_loss
from arena.training.objectives.token_logps import token_logps, token_logps_and_entropy
from arena.training.packing import Pack, Trunks, pack
from arena.training.sequences import TrainingSequence, missing_advantages, missing_logps

__all__ = ["KLConfig", "Learner", "LearnerConfig", "ObjectiveConfig", "Scores", "learning_rate"]

_LOGITS_AT_ONCE = 1 << 24
"""Entries of a logit matrix; larger ones are cut into tiles that are computed again in the backward pass."""


_LOGITS_THAT_COUNT = 1 << 21
"""Entries from which on a logit matrix is worth avoiding."""


class HasNetwork(Protocol):
    """What a learner needs of a model: the trained network."""

    @property
    def network(self) -> Any:
        """A transformers causal language model, or a PEFT model around one."""


@dataclass(slots=True)
class Scores:
    """What the networks of a learner say about sequences; one entry for each trained token, sequence after sequence."""

    logps: NDArray[np.float64]
    """(N,) log-prob of the token under the policy."""
    ref_logps: NDArray[np.float64] | None
    """(N,) under the reference, if there is one."""
    kl: NDArray[np.float64] | None
    """(N,) exact KL(policy || reference) at the token, if there is a reference."""


@dataclass(frozen=True, slots=True)
class Forms:
    """Which ids the tokens of a batch were drawn from, where some had to be one of a few."""

    excluded_FV: Tensor
    """Each form that occurs: True for ids that could not be drawn. The first one excludes nothing."""
    number_N: Tensor
    """Form of each token."""


@dataclass(slots=True)
class _Batch:
    """One optimizer step: tensors over the trained tokens (N) of all its sequences."""

    packs: list[Pack]
    targets_N: Tensor
    temperatures_N: Tensor | None
    """None where all are 1."""
    weights_N: Tensor
    rows_N: NDArray[np.int64]
    """Sequence of each token."""
    turns: int
    forms: Forms | None
    """None where every token was free."""
    old_logps_N: Tensor | None = None
    advantages_N: Tensor | None = None


class Learner:
    """Trains one network.

    Args:
        model: holder of the network; all its parameters that require gradients are trained.
        config: see `LearnerConfig`; an `OptimizerConfig` is enough for `sft`.
        seed: of the order of minibatches.
        adapter: train this LoRA adapter of the network and no other.

    Raises:
        ConfigError: nothing to train, or an architecture whose output layer cannot be taken apart.
    """

    def __init__(self, model: HasNetwork, config: OptimizerConfig, *, seed: int, adapter: str | None = None) -> None:
        self.network = model.network
        self.adapter = adapter if hasattr(self.network, "peft_config") else None
        if self.adapter is not None:
            self.network.set_adapter(self.adapter)
        self.supervised_only = not isinstance(config, LearnerConfig)
        """Whether only `sft` may be called: nothing says what `update` should minimise."""
        self.config = config if isinstance(config, LearnerConfig) else LearnerConfig(**config.model_dump())
        self.parameters: dict[str, nn.Parameter] = {
            name: parameter for name, parameter in self.network.named_parameters() if parameter.requires_grad
        }
        if not self.parameters:
            raise ConfigError("the network has no trainable parameter: add an adapter, or unfreeze it")
        base = self.network.get_base_model() if hasattr(self.network, "get_base_model") else self.network
        self._decoder = base.get_decoder()
        self._head = base.get_output_embeddings()
        # The cache argument was renamed in transformers 5; both names are in use.
        self._cache_name = "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"
        self._device = next(iter(self.parameters.values())).device
        self._trees = self._probe()
        self._token_cost = self._probe_trunks() if self._trees and not config.checkpointing else None
        self._optimizer = _optimizer(list(self.parameters.values()), config)
        if config.checkpointing:
            if not getattr(base, "supports_gradient_checkpointing", False):
                raise ConfigError(f"{type(base).__name__} cannot compute activations again: set checkpointing to false")
            # The name changed within transformers 5.
            enable = getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        self._random = np.random.default_rng(seed)
        kl = self.config.kl
        self.kl_control = KLController(
            kl.beta, target=kl.target, form=kl.form, gain=kl.gain, floor=kl.floor, ceiling=kl.ceiling
        )
        self.step = 0
        """Optimizer steps taken."""
        self._last_kl = 0.0
        self._reference: dict[str, Tensor] | Literal["adapter off"] | None = None
        self._remembered: dict[str, dict[str, Tensor]] = {}

    def set_reference(self, *, adapter_off: bool = False) -> None:
        """Make the policy of this moment the reference; with ``adapter_off``, a LoRA policy without its adapter.

        Raises:
            ConfigError: ``adapter_off`` for a network without adapters.
        """
        if adapter_off:
            if not hasattr(self.network, "disable_adapter"):
                raise ConfigError("the network has no adapter to switch off: use set_reference() for a snapshot")
            self._reference = "adapter off"
        else:
            self._reference = self._weights()

    def require_reference(self) -> None:
        """Refuse to go on without a reference.

        Raises:
            ConfigError: none is set.
        """
        if self._reference is None:
            raise ConfigError("the KL needs a reference policy: call set_reference() first, or set kl.beta to 0")

    def remember(self, name: str) -> None:
        """Keep the weights of this moment under a name, for `kl_to`."""
        self._remembered[name] = self._weights()

    def kl_to(self, name: str, sequences: Sequence[TrainingSequence]) -> float:
        """Exact KL in nats of the policy to what it was when `remember` was told the name, summed over trained tokens.

        Raises:
            ConfigError: there is nothing to score.
        """
        reference = self._reference
        self._reference = self._remembered[name]
        try:
            kl = self.score(sequences).kl
        finally:
            self._reference = reference
        assert kl is not None
        return float(kl.sum())

    def _weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    def update(self, sequences: Sequence[TrainingSequence]) -> dict[str, float]:
        """Learn from sampled sequences with advantages: ``epochs`` x ``minibatches`` optimizer steps.

        Sequences without trained tokens are skipped; prefixes that sequences share are computed once.

        Returns:
            Metrics, means over optimizer steps: ``loss``, ``pg_loss``, ``kl_per_token`` and ``kl_per_turn`` (nats, to
            the reference), ``beta`` (used), ``clip_frac``, ``ratio_mean``, ``ratio_max``, ``entropy`` (nats),
            ``grad_norm`` (before clipping), ``lr``, ``tokens`` (trained), ``forward_tokens``, ``steps``, ``kl_stop``
            (1: only the pull to the reference), ``importance_mean`` (of the weights, if there are any).

        Raises:
            ConfigError: a sequence lacks log-probs or advantages, or there is nothing to train, or no reference is set,
                or the learner was made for `sft` only.
            NumericalError: an input, the loss or a gradient is not finite; the optimizer has not moved since.
        """
        if self.supervised_only:
            raise ConfigError(
                "this learner has an OptimizerConfig, enough for sft() only: make it with a LearnerConfig"
            )
        sequences = _trainable(sequences)
        _check_signal(sequences)
        if self.kl_control.beta > 0.0:
            self.require_reference()
        kl_stop = self.config.max_kl is not None and self._last_kl > self.config.max_kl
        importance = 1.0
        if self.config.importance is not None:
            sequences, importance = self._weighted(sequences, self.config.importance)
        metrics = []
        for part in self._parts(sequences):
            batch = self._batch(part, self.config.objective.aggregate)
            _add_signal(batch, part, self._device)
            metrics.append(self._step(batch, lambda b, p: self._policy_terms(b, p, kl_stop)))
        result = {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}
        result["ratio_max"] = max(one["ratio_max"] for one in metrics)
        result["beta"] = self.kl_control.beta
        if self.config.importance is not None:
            result["importance_mean"] = importance
        result["steps"] = float(len(metrics))
        result["kl_stop"] = float(kl_stop)
        if self._reference is not None:
            self._last_kl = result["kl_per_turn"]
            self.kl_control.update(self._last_kl)
        return result

    def sft(
        self, sequences: Sequence[TrainingSequence], weights: Mapping[str, float] = MappingProxyType({})
    ) -> dict[str, float]:
        """One optimizer step of supervised learning: mean negative log-likelihood of the trained tokens.

        Args:
            sequences: those without trained tokens are skipped.
            weights: role (or counted role) -> how much its tokens count in the mean; 1 if it is not named.

        Returns:
            Metrics ``loss`` (nats a token), ``entropy``, ``grad_norm``, ``lr``, ``tokens``, ``forward_tokens``.

        Raises:
            ConfigError: there is nothing to train.
            NumericalError: the loss or a gradient is not finite; the optimizer has not moved.
        """
        sequences = _trainable(sequences)
        batch = self._batch(sequences, "token_mean")
        batch.temperatures_N, batch.forms = None, None
        if weights:
            weights_S = [weights.get(s.role, weights.get(s.role.rpartition("-")[0], 1.0)) for s in sequences]
            batch.weights_N = batch.weights_N * torch.tensor(weights_S, device=self._device)[batch.rows_N]
            batch.weights_N /= batch.weights_N.sum()
        return self._step(batch, self._supervised_terms)

    def score(self, sequences: Sequence[TrainingSequence], *, reference: bool = True) -> Scores:
        """Log-probs and KL of the trained tokens, without learning.

        Args:
            sequences: those without trained tokens are skipped.
            reference: whether the reference, if there is one, is asked as well.

        Raises:
            ConfigError: there is nothing to score.
        """
        batch = self._batch(_trainable(sequences), "token_mean")
        logps = np.empty(len(batch.targets_N))
        ref_logps, kl = np.empty_like(logps), np.empty_like(logps)
        with torch.no_grad(), self._evaluation():
            for part in batch.packs:
                hidden_NH, reference_NH = self._hidden(part), None
                if reference and self._reference is not None:
                    with self._as_reference():
                        reference_NH = self._hidden(part)
                for begin, end in self._tiles(len(hidden_NH)):
                    tokens_R = part.tokens_N[begin:end]
                    targets_R1 = batch.targets_N[tokens_R][:, None]
                    rows_RV = self._log_softmax(hidden_NH[begin:end], batch, part, begin)
                    logps[tokens_R] = rows_RV.gather(1, targets_R1)[:, 0].cpu().numpy()
                    if reference_NH is None:
                        continue
                    with self._as_reference():
                        other_RV = self._log_softmax(reference_NH[begin:end], batch, part, begin)
                    ref_logps[tokens_R] = other_RV.gather(1, targets_R1)[:, 0].cpu().numpy()
                    kl[tokens_R] = kl_from_logps(rows_RV, other_RV).cpu().numpy()
        asked = reference and self._reference is not None
        return Scores(logps, ref_logps, kl) if asked else Scores(logps, None, None)

    def gradient_reach(self, sequence: TrainingSequence) -> list[int]:
        """Positions of one sequence whose predictions a loss over its trained tokens really moves.

        The gradient is read where it enters the network, at the hidden states before the output layer.
        """
        batch = self._batch([sequence], "token_mean")
        (part,) = batch.packs
        hidden_NH: list[Tensor] = []
        with self._evaluation():
            hidden = self._hidden(part, keep=hidden_NH)
            rows_NV = self._log_softmax(hidden, batch, part)
            loss = -rows_NV.gather(1, batch.targets_N[part.tokens_N][:, None]).sum()
            (gradient,) = torch.autograd.grad(loss, hidden_NH)
        reached = gradient.reshape(-1, gradient.shape[-1]).abs().amax(1) > 0
        depths = part.depths_RM.reshape(-1)
        return sorted(int(depths[node]) + 1 for node in reached.nonzero()[:, 0].tolist())

    def state_dict(self) -> dict[str, Any]:
        """All that a run needs to go on bit for bit; tensors are copies."""
        return copy.deepcopy(
            {
                "weights": {name: parameter.detach() for name, parameter in self.parameters.items()},
                "optimizer": self._optimizer.state_dict(),
                "step": self.step,
                "kl_control": self.kl_control.state_dict(),
                "last_kl": self._last_kl,
                "reference": self._reference,
                "remembered": self._remembered,
                "random": self._random.bit_generator.state,
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            ResumeError: the state belongs to another network.
        """
        state = copy.deepcopy(state)
        weights = state["weights"]
        for name in sorted(weights.keys() ^ self.parameters.keys()):
            side = "the network lacks" if name in weights else "the saved state lacks"
            raise ResumeError(f"{side} the weight '{name}': resume with the model that the run was started with")
        for name, parameter in self.parameters.items():
            if weights[name].shape != parameter.shape:
                raise ResumeError(
                    f"weight '{name}' is {tuple(weights[name].shape)} in the saved state and {tuple(parameter.shape)} "
                    "in the network: resume with the model that the run was started with"
                )
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.kl_control.load_state_dict(state["kl_control"])
        self._last_kl = state["last_kl"]
        self._reference = state["reference"]
        self._remembered = state["remembered"]
        self._random.bit_generator.state = state["random"]

    # One optimizer step -----------------------------------------------------------------------------------------------

    def _step(self, batch: _Batch, terms: Any) -> dict[str, float]:
        """Accumulate the gradient of ``terms(batch, pack) -> (loss, sums)`` over packs, check it, and step."""
        self._optimizer.zero_grad(set_to_none=True)
        sums: dict[str, Tensor] = {}
        with self._evaluation():
            for part in batch.packs:
                loss, parts = terms(batch, part)
                loss.backward()
                for name, value in {"loss": loss.detach(), **parts}.items():
                    join = torch.maximum if name == "ratio_max" else torch.add
                    sums[name] = join(sums[name], value) if name in sums else value
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        values = torch.stack([value.double() for value in [*sums.values(), norm]]).tolist()
        metrics = dict(zip([*sums, "grad_norm"], values, strict=True))
        for name in ("loss", "grad_norm"):
            if not math.isfinite(metrics[name]):
                self._optimizer.zero_grad(set_to_none=True)
                raise NumericalError(
                    f"{'the loss' if name == 'loss' else 'the gradient norm'} is {metrics[name]} at optimizer step "
                    f"{self.step}; weights and optimizer are as before it"
                )
        if self.config.clip_norm is not None and metrics["grad_norm"] > self.config.clip_norm:
            torch._foreach_mul_(gradients, self.config.clip_norm / (metrics["grad_norm"] + 1e-6))
        metrics["lr"] = learning_rate(self.config, self.step)
        for group in self._optimizer.param_groups:
            group["lr"] = metrics["lr"]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step += 1
        tokens = float(len(batch.targets_N))
        for name in ("entropy", "clip_frac", "ratio_mean"):
            if name in metrics:
                metrics[name] /= tokens
        if "kl" in metrics:
            total = metrics.pop("kl")
            metrics |= {"kl_per_token": total / tokens, "kl_per_turn": total / batch.turns}
        forward = float(sum(part.size for part in batch.packs))
        return {**metrics, "tokens": tokens, "forward_tokens": forward}

    def _weighted(
        self, sequences: Sequence[TrainingSequence], config: ImportanceConfig
    ) -> tuple[list[TrainingSequence], float]:
        """The sequences with the trainer's own log-probs, and advantages times the importance weights; their mean.

        A weight is never negative, so that it multiplies the surrogate of its token, clipped or not, and nothing else.
        """
        left, found, weights = self.score(sequences, reference=False).logps, [], []
        for sequence in sequences:
            own, left = left[: len(sequence.positions)], left[len(sequence.positions) :]
            sampled = np.asarray(sequence.logps, np.float64)
            own_BT, sampled_BT = (torch.from_numpy(values)[None] for values in (own, sampled))
            weights_BT = sampler_weights(own_BT, sampled_BT, torch.ones_like(own_BT), **config.model_dump())
            weights.append(weights_BT[0].numpy())
            advantages = (np.asarray(sequence.advantages, np.float64) * weights[-1]).tolist()
            found.append(replace(sequence, logps=own.tolist(), advantages=advantages))
        return found, float(np.concatenate(weights).mean())

    def _policy_terms(self, batch: _Batch, part: Pack, kl_stop: bool) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.old_logps_N is not None
        assert batch.advantages_N is not None
        config = self.config.objective
        weights_N = batch.weights_N[part.tokens_N]
        reference = None
        if self._reference is not None:
            with torch.no_grad(), self._as_reference():
                reference = self._hidden(part)

        logps_N, entropy_N, kl_N = self._token_terms(batch, part, reference)
        dtype = logps_N.dtype
        index_BT, mask_BT = self._layout(batch, part)
        signal = (
            logps_N[index_BT],
            batch.old_logps_N[part.tokens_N].to(dtype)[index_BT],
            batch.advantages_N[part.tokens_N].to(dtype)[index_BT],
            mask_BT,
        )
        surrogate = score_loss(*signal) if config.surrogate == "score" else policy_loss(*signal, **_clips(config))
        pg_loss = (surrogate.loss_BT[mask_BT] * weights_N.to(dtype)).sum()
        ratio = surrogate.log_ratio_BT[mask_BT].exp()
        sums = {
            "pg_loss": pg_loss.detach(),
            "entropy": entropy_N.sum(),
            "clip_frac": surrogate.clipped_BT[mask_BT].sum(),
            "ratio_mean": ratio.sum(),
            "ratio_max": ratio.max(),
        }
        loss = pg_loss * 0.0 if kl_stop else pg_loss
        if kl_N is not None:
            sums["kl"] = kl_N.detach().sum()
            if self.kl_control.beta > 0.0 and self.config.kl.place == "loss":
                loss = loss + self.kl_control.beta * (kl_N * weights_N.to(dtype)).sum()
        return loss, sums

    def _supervised_terms(self, batch: _Batch, part: Pack) -> tuple[Tensor, dict[str, Tensor]]:
        logps_N, entropy_N, _ = self._token_terms(batch, part, None)
        loss = -(logps_N * batch.weights_N[part.tokens_N].to(logps_N.dtype)).sum()
        return loss, {"entropy": entropy_N.sum()}

    def _token_terms(
        self, batch: _Batch, part: Pack, reference_NH: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Log-prob, entropy (detached) and KL of each trained token of a pack; logits live one tile at a time.

        ``reference_NH`` are the reference's hidden states; its logits live as long as the policy's.
        """
        hidden_NH = self._hidden(part)
        targets_N1 = batch.targets_N[part.tokens_N][:, None]

        def tile(hidden_RH: Tensor, begin: int, end: int) -> tuple[Tensor, ...]:
            rows_RV = self._log_softmax(hidden_RH, batch, part, begin)
            logps_R = rows_RV.gather(1, targets_N1[begin:end])[:, 0]
            entropy_R = _entropy(rows_RV.detach(), ids_left_out=batch.forms is not None)
            if reference_NH is None:
                return logps_R, entropy_R
            with torch.no_grad(), self._as_reference():
                other_RV = self._log_softmax(reference_NH[begin:end], batch, part, begin)
            if self.config.kl.estimator == "exact":
                return logps_R, entropy_R, kl_from_logps(rows_RV, other_RV)
            return logps_R, entropy_R, self._sampled_kl(logps_R, other_RV.gather(1, targets_N1[begin:end])[:, 0])

        found: tuple[Tensor, ...]
        tiles = self._tiles(len(hidden_NH))
        exact = reference_NH is not None and self.config.kl.estimator == "exact"
        # Each step that needs the chosen tokens' log-probs only goes without a second pass over the logits.
        plain = type(self._head) is nn.Linear and self._head.bias is None and batch.forms is None
        large = len(hidden_NH) * self._head.weight.shape[0] > _LOGITS_THAT_COUNT
        if large and plain and not exact:
            found = self._fused_terms(batch, part, hidden_NH, reference_NH)
        elif len(tiles) == 1:
            found = tile(hidden_NH, *tiles[0])
        else:
            pieces = [checkpoint(tile, hidden_NH[begin:end], begin, end, use_reentrant=False) for begin, end in tiles]
            found = tuple(torch.cat(column) for column in zip(*pieces, strict=True))
        return found[0], found[1], found[2] if len(found) > 2 else None

    def _fused_terms(
        self, batch: _Batch, part: Pack, hidden_NH: Tensor, reference_NH: Tensor | None
    ) -> tuple[Tensor, ...]:
        """The same for an output layer that is one matrix, where no distribution is compared as a whole."""
        targets_N = batch.targets_N[part.tokens_N]
        heat_N = None if batch.temperatures_N is None else batch.temperatures_N[part.tokens_N]
        begin, end = self._tiles(len(hidden_NH))[0]
        size = end - begin
        logps_N, entropy_N = token_logps_and_entropy(
            hidden_NH, self._head.weight, targets_N, temperatures_N=heat_N, rows=size
        )
        if reference_NH is None:
            return logps_N, entropy_N
        with torch.no_grad(), self._as_reference():
            other_N = token_logps(reference_NH, self._head.weight, targets_N, temperatures_N=heat_N, rows=size)
        return logps_N, entropy_N, self._sampled_kl(logps_N, other_N)

    def _sampled_kl(self, logps_N: Tensor, other_N: Tensor) -> Tensor:
        estimator = self.config.kl.estimator
        assert estimator != "exact"
        return kl_per_token(logps_N, other_N, estimator=estimator, linear_from=10.0 if estimator == "k3" else None)

    def _tiles(self, count: int) -> list[tuple[int, int]]:
        """Ranges of trained tokens whose logits may exist at once."""
        size = max(_LOGITS_AT_ONCE // self._head.weight.shape[0], 1)
        return [(at, min(at + size, count)) for at in range(0, count, size)]

    # The network ------------------------------------------------------------------------------------------------------

    def _hidden(self, part: Pack, keep: list[Tensor] | None = None) -> Tensor:
        """(N, H) hidden states that predict the trained tokens of a pack; ``keep`` receives those of all nodes."""
        nodes_N = torch.from_numpy(part.nodes_N).to(self._device)
        if part.trunks is not None:
            return torch.cat(self._forward_branches(part, part.trunks)).index_select(0, nodes_N)
        hidden_RMH = self._forward(part)
        if keep is not None:
            keep.append(hidden_RMH)
        return hidden_RMH.reshape(-1, hidden_RMH.shape[-1]).index_select(0, nodes_N)

    def _forward(self, part: Pack) -> Tensor:
        """(R, M, H) hidden states of all nodes."""
        ids_RM = torch.from_numpy(part.ids_RM).to(self._device)
        if part.mask_RMM is None:
            # Padding is on the right, where causal attention never looks.
            return self._decoder(input_ids=ids_RM, use_cache=False).last_hidden_state  # type: ignore[no-any-return]
        return self._decoder(  # type: ignore[no-any-return]
            input_ids=ids_RM,
            attention_mask=self._additive(part.mask_RMM),
            position_ids=torch.from_numpy(part.depths_RM).to(self._device),
            use_cache=False,
        ).last_hidden_state

    def _forward_branches(self, part: Pack, trunks: Trunks) -> list[Tensor]:
        """(T * P, H) and (R * M, H) hidden states of trunks and of the rows behind them; gradients reach the trunks
        through their keys and values, too."""
        assert part.mask_RMM is not None
        cache: Any = DynamicCache()
        trunk_TPH = self._decoder(
            input_ids=torch.from_numpy(trunks.ids_TP).to(self._device), use_cache=True, **{self._cache_name: cache}
        ).last_hidden_state
        trunk_R = torch.from_numpy(trunks.trunk_R).to(self._device)
        for layer in cache.layers:
            layer.keys = layer.keys.index_select(0, trunk_R)
            layer.values = layer.values.index_select(0, trunk_R)
        rows_RMH = self._decoder(
            input_ids=torch.from_numpy(part.ids_RM).to(self._device),
            attention_mask=self._additive(part.mask_RMM),
            position_ids=torch.from_numpy(part.depths_RM).to(self._device),
            use_cache=True,
            **{self._cache_name: cache},
        ).last_hidden_state
        return [hidden.reshape(-1, hidden.shape[-1]) for hidden in (trunk_TPH, rows_RMH)]

    def _additive(self, mask_RMK: NDArray[np.bool_]) -> Tensor:
        """(R, 1, M, K) 0 where a token attends, minus infinity elsewhere."""
        mask = torch.from_numpy(mask_RMK).to(self._device)
        additive_RMK = torch.zeros(mask.shape, dtype=self._head.weight.dtype, device=self._device)
        return additive_RMK.masked_fill_(~mask, -math.inf)[:, None]

    def _log_softmax(self, hidden_RH: Tensor, batch: _Batch, part: Pack, begin: int = 0) -> Tensor:
        """(R, V) log-probs of some trained tokens of a pack, from number ``begin`` on."""
        end = begin + len(hidden_RH)
        heat_N = None if batch.temperatures_N is None else batch.temperatures_N[part.tokens_N[begin:end]]
        excluded_RV = None
        if batch.forms is not None:
            tokens_R = torch.from_numpy(part.tokens_N[begin:end]).to(self._device)
            excluded_RV = batch.forms.excluded_FV[batch.forms.number_N[tokens_R]]
        return _rows(self._head, hidden_RH, heat_N, excluded_RV)

    @contextmanager
    def _evaluation(self) -> Iterator[None]:
        training = self.network.training
        self.network.eval()
        if self.config.checkpointing:
            for module in self.network.modules():
                # A layer asks its own flag; what is inside of it, dropout among it, stays in evaluation mode.
                module.training = isinstance(module, GradientCheckpointingLayer)
        if self.adapter is not None and self.network.active_adapter != self.adapter:
            self.network.set_adapter(self.adapter)
        try:
            yield
        finally:
            self.network.train(training)

    @contextmanager
    def _as_reference(self) -> Iterator[None]:
        """Put the reference's weights in place: without gradient, and never between a forward and its backward pass."""
        assert self._reference is not None
        if self._reference == "adapter off":
            with self.network.disable_adapter():
                yield
            return
        current = {name: parameter.data for name, parameter in self.parameters.items()}
        try:
            for name, parameter in self.parameters.items():
                parameter.data = self._reference[name]
            yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.data = current[name]

    def _probe(self) -> bool:
        """Whether the network computes token trees as it computes sequences; checks the way to its logits as well."""
        first = TrainingSequence([0, 1, 2, 3], [2, 3], None, [0, 0], "probe", "probe", 2)
        second = TrainingSequence([0, 1, 3, 2], [2, 3], None, [0, 0], "probe", "probe", 2)
        with torch.no_grad(), self._evaluation():
            (plain,) = pack([first, second], budget=16, trees=False)
            hidden_NH = self._hidden(plain)
            logits_NV = self._head(hidden_NH)
            ids = torch.tensor([first.ids[:3], second.ids[:3]], device=self._device)
            expected_NV = self.network(input_ids=ids, use_cache=False).logits[:, 1:].reshape(logits_NV.shape)
            rounding = 1e-3 if logits_NV.dtype in (torch.float32, torch.float64) else 0.1
            if not torch.allclose(logits_NV, expected_NV, rtol=rounding, atol=rounding):
                raise ConfigError(
                    f"{type(self.network).__name__} changes its logits after the output layer: it cannot be trained"
                )
            if _local_attention(self.network.config):
                return False
            (tree,) = pack([first, second], budget=16)
            try:
                return torch.allclose(self._hidden(tree), hidden_NH, rtol=rounding, atol=rounding)
            except (RuntimeError, ValueError, TypeError):
                # An attention kernel that takes no mask of our own.
                return False

    def _probe_trunks(self) -> int | None:
        """What a token costs beside attention if the network computes trunks and branches as it computes sequences."""
        branches = [[*([0] * 33), number % 4, number // 4, 0] for number in range(8)]
        made = [TrainingSequence(ids, [33, 34, 35], None, [0] * 3, "probe", "probe", 33) for ids in branches]
        (plain,) = pack(made, budget=400, trees=False)
        (apart,) = pack(made, budget=400, token_cost=1)
        assert apart.trunks is not None
        rounding = 1e-3 if self._head.weight.dtype in (torch.float32, torch.float64) else 0.1
        with torch.no_grad(), self._evaluation():
            try:
                same = torch.allclose(self._hidden(apart), self._hidden(plain), rtol=rounding, atol=rounding)
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
                # A network that keeps something else than keys and values, or too short for the probe.
                return None
        # Of a block's 12 H^2 multiplications for a token and 2 H for a pair; attention runs at two thirds of the speed.
        return 4 * int(self._head.weight.shape[1]) if same else None

    # Batches ----------------------------------------------------------------------------------------------------------

    def _parts(self, sequences: list[TrainingSequence]) -> Iterator[list[TrainingSequence]]:
        """The sequences of each optimizer step; rollouts of one group stay together, to share their prompt."""
        if self.config.minibatches == 1:
            for _ in range(self.config.epochs):
                yield sequences
            return
        groups: dict[str, list[TrainingSequence]] = {}
        for sequence in sequences:
            groups.setdefault(sequence.group or sequence.episode, []).append(sequence)
        for _ in range(self.config.epochs):
            order = self._random.permutation(len(groups))
            members = list(groups.values())
            for chosen in np.array_split(order, min(self.config.minibatches, len(groups))):
                yield [sequence for index in chosen for sequence in members[index]]

    def _batch(self, sequences: list[TrainingSequence], agg: Aggregate) -> _Batch:
        packs = pack(sequences, budget=self.config.micro_batch, trees=self._trees, token_cost=self._token_cost)
        counts_S = np.asarray([len(sequence.positions) for sequence in sequences])
        mask_ST = np.arange(counts_S.max()) < counts_S[:, None]
        weights_ST = token_weights(
            torch.from_numpy(mask_ST),
            agg,
            group_ids=[sequence.group for sequence in sequences],
            norm_const=self.config.objective.norm_const,
        )
        temperatures = np.repeat([sequence.temperature for sequence in sequences], counts_S)
        targets = [sequence.ids[at] for sequence in sequences for at in sequence.positions]
        return _Batch(
            packs=packs,
            targets_N=torch.tensor(targets, device=self._device),
            temperatures_N=None if (temperatures == 1.0).all() else torch.from_numpy(temperatures).to(self._device),
            weights_N=weights_ST[torch.from_numpy(mask_ST)].to(self._device),
            rows_N=np.repeat(np.arange(len(sequences)), counts_S),
            turns=sum(sequence.turn_count() for sequence in sequences),
            forms=self._forms(sequences, counts_S),
        )

    def _forms(self, sequences: Sequence[TrainingSequence], counts_S: NDArray[np.int64]) -> Forms | None:
        numbers: dict[tuple[int, ...], int] = {}
        number_N = np.zeros(int(counts_S.sum()), np.int64)
        for start, sequence in zip(np.cumsum(counts_S) - counts_S, sequences, strict=True):
            for number, ids in sequence.allowed.items():
                number_N[start + number] = numbers.setdefault(ids, len(numbers) + 1)
        if not numbers:
            return None
        excluded_FV = torch.zeros(len(numbers) + 1, self._head.weight.shape[0], dtype=torch.bool)
        for ids, number in numbers.items():
            excluded_FV[number] = True
            excluded_FV[number, list(ids)] = False
        return Forms(excluded_FV.to(self._device), torch.from_numpy(number_N).to(self._device))

    def _layout(self, batch: _Batch, part: Pack) -> tuple[Tensor, Tensor]:
        """(B, T) places of a pack's tokens by sequence, and which of them are real."""
        count = len(part.tokens_N)
        if self.config.objective.level == "token":
            index = torch.arange(count, device=self._device)[None]
            return index, torch.ones_like(index, dtype=torch.bool)
        _, counts_B = np.unique(batch.rows_N[part.tokens_N], return_counts=True)
        mask_BT = np.arange(counts_B.max()) < counts_B[:, None]
        index_BT = np.zeros(mask_BT.shape, np.int64)
        index_BT[mask_BT] = np.arange(count)
        return torch.from_numpy(index_BT).to(self._device), torch.from_numpy(mask_BT).to(self._device)


def _optimizer(parameters: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer that a configuration asks for.

    Raises:
        ConfigError: its library is missing.
    """
    options: dict[str, Any] = {"lr": config.lr, "betas": config.betas, "weight_decay": config.weight_decay}
    if config.optimizer == "adamw":
        return torch.optim.AdamW(parameters, fused=True, **options)
    try:
        library: Any = importlib.import_module("bitsandbytes.optim")
    except ImportError as error:
        raise ConfigError("optimizer adamw_8bit needs the package: pip install bitsandbytes") from error
    found: torch.optim.Optimizer = library.AdamW8bit(parameters, **options)
    return found


def _clips(config: ObjectiveConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in ("clip_low", "clip_high", "level", "dual_clip")}


def _rows(head: nn.Module, hidden_NH: Tensor, temperatures_N: Tensor | None, excluded_NV: Tensor | None) -> Tensor:
    """(N, V) log-probs as the sampler had them: at its temperature, over the ids that it drew from; float32 or 64."""
    logits_NV: Tensor = head(hidden_NH)
    if logits_NV.dtype in (torch.float16, torch.bfloat16):
        logits_NV = logits_NV.float()
    if temperatures_N is not None:
        logits_NV = logits_NV / temperatures_N[:, None].to(logits_NV.dtype)
    if excluded_NV is not None:
        logits_NV = logits_NV.masked_fill(excluded_NV, -math.inf)
    return torch.log_softmax(logits_NV, -1)


def _entropy(logps_RV: Tensor, *, ids_left_out: bool) -> Tensor:
    """(R,) entropy in nats of each row."""
    if ids_left_out:
        return -(logps_RV.exp() * logps_RV).nan_to_num(0.0).sum(1)
    found: Tensor = torch.linalg.vecdot(logps_RV.exp(), logps_RV)
    return -found


def _trainable(sequences: Sequence[TrainingSequence]) -> list[TrainingSequence]:
    found = [sequence for sequence in sequences if sequence.positions]
    if not found:
        raise ConfigError(f"nothing to train: none of the {len(sequences)} sequences has a sampled token")
    return found


def _check_signal(sequences: Sequence[TrainingSequence]) -> None:
    """Refuse log-probs and advantages that are no numbers.

    Raises:
        ConfigError: some are missing.
        NumericalError: one is not finite.
    """
    wrong = missing_logps(sequences) or missing_advantages(sequences)
    if wrong is not None:
        raise ConfigError(wrong)
    for sequence in sequences:
        for name, values in (("log-prob", sequence.logps or ()), ("advantage", sequence.advantages)):
            bad = [value for value in values if not math.isfinite(value)]
            if bad:
                raise NumericalError(
                    f"{name} {bad[0]} of '{sequence.role}' in episode '{sequence.episode}' is not finite; "
                    "nothing was trained"
                )


def _add_signal(batch: _Batch, sequences: Sequence[TrainingSequence], device: torch.device) -> None:
    logps = np.concatenate([np.asarray(sequence.logps, np.float64) for sequence in sequences])
    advantages = np.concatenate([np.asarray(sequence.advantages, np.float64) for sequence in sequences])
    batch.old_logps_N, batch.advantages_N = (torch.from_numpy(values).to(device) for values in (logps, advantages))


def _local_attention(config: Any) -> bool:
    """Whether some layers see a window only, which a mask of our own would undo."""
    kinds = getattr(config, "layer_types", None) or ()
    return bool(getattr(config, "sliding_window", None)) or any(kind != "full_attention" for kind in kinds)
