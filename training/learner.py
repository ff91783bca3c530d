"""One policy and its optimizer: KL-constrained policy gradients and supervised warm starts.

    loss = sum_t w_t [ clipped surrogate(log pi_t - log pi_old_t, A_t) + beta KL(pi || reference)_t ]

The weights w are those of the whole optimizer step, so micro-batches of any size give the same gradient. Sequences are
packed as token trees (`arena.training.packing`): each shared prefix is computed once, with gradient. Hidden states are
gathered where a trained token is predicted and only those meet the output layer; logits of (batch, time, vocabulary)
never exist. The network stays in evaluation mode: dropout would make the ratio of step 0 differ from 1.

The reference is a snapshot of the trainable weights (or, for LoRA, the adapter switched off). Log-probs are taken at
the temperature of the sampler, and so is the KL. A critic (`arena.training.critic`) reads the same hidden states and
adds its loss.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from arena.protocols.errors import ConfigError, NumericalError, ResumeError
from arena.training.batches import Batch, add_signal, batch_of, check_signal, trainable
from arena.training.critic import Critic, explained_variance
from arena.training.kl_control import KLController
from arena.training.learner_config import (
    ImportanceConfig,
    KLConfig,
    LearnerConfig,
    ObjectiveConfig,
    OptimizerConfig,
    learning_rate,
)
from arena.training.network import Reference, TrainedNetwork, log_probs
from arena.training.objectives import Aggregate
from arena.training.objectives.importance import sampler_weights
from arena.training.objectives.kl import kl_from_logps, kl_per_token
from arena.training.objectives.policy_gradient import policy_loss, score_loss
from arena.training.objectives.token_logps import token_logps, token_logps_and_entropy
from arena.training.packing import Pack
from arena.training.sequences import TrainingSequence

__all__ = ["KLConfig", "Learner", "LearnerConfig", "ObjectiveConfig", "Scores", "learning_rate"]

_LOGITS_AT_ONCE = 1 << 24
"""Entries of a logit matrix; larger ones are cut into tiles that are computed again in the backward pass."""


_LOGITS_THAT_COUNT = 1 << 21
"""Entries from which on a logit matrix is worth avoiding."""

_CHECKED = {
    "loss": "the loss",
    "grad_norm": "the gradient norm",
    "value_grad_norm": "the gradient norm of the value head",
}
"""What has to be finite before a step, in words."""


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


class Learner:
    """Trains one network.

    Args:
        model: holder of the network; all its parameters that require gradients are trained (see `TrainedNetwork`).
        config: see `LearnerConfig`; an `OptimizerConfig` is enough for `sft`.
        seed: of the order of minibatches.
        adapter: train this LoRA adapter of the network and no other.
        critic: learn values beside (``config.value``), from sequences that have `TrainingSequence.value`.

    Raises:
        ConfigError: nothing to train, or an architecture whose output layer cannot be taken apart.
    """

    def __init__(
        self,
        model: HasNetwork,
        config: OptimizerConfig,
        *,
        seed: int,
        adapter: str | None = None,
        critic: bool = False,
    ) -> None:
        self.supervised_only = not isinstance(config, LearnerConfig)
        """Whether only `sft` may be called: nothing says what `update` should minimise."""
        self.config = config if isinstance(config, LearnerConfig) else LearnerConfig(**config.model_dump())
        self._net = TrainedNetwork(model.network, adapter=adapter, checkpointing=config.checkpointing)
        self.network = model.network
        self.parameters = self._net.parameters
        head = self._net.head.weight
        self.critic = (
            Critic(head.shape[1], self.config.value, dtype=head.dtype, device=self._net.device) if critic else None
        )
        """The value head; None where no values are learned."""
        self._optimizer = _optimizer(list(self.parameters.values()), config, self.critic)
        self._random = np.random.default_rng(seed)
        kl = self.config.kl
        self.kl_control = KLController(
            kl.beta, target=kl.target, form=kl.form, gain=kl.gain, floor=kl.floor, ceiling=kl.ceiling
        )
        self.step = 0
        """Optimizer steps taken."""
        self._last_kl = 0.0
        self._reference: Reference | None = None
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
            (1: only the pull to the reference), ``importance_mean`` (of the weights, if there are any). With a critic
            also ``value_loss`` (without its coefficient), ``value_grad_norm`` (of its head, before clipping),
            ``explained_variance`` (before the update; see `arena.training.critic.explained_variance`).

        Raises:
            ConfigError: a sequence lacks log-probs or advantages, or there is nothing to train, or no reference is set,
                or the learner was made for `sft` only.
            NumericalError: an input, the loss or a gradient is not finite; the optimizer has not moved since.
        """
        if self.supervised_only:
            raise ConfigError(
                "this learner has an OptimizerConfig, enough for sft() only: make it with a LearnerConfig"
            )
        sequences = trainable(sequences)
        check_signal(sequences)
        if self.kl_control.beta > 0.0:
            self.require_reference()
        kl_stop = self.config.max_kl is not None and self._last_kl > self.config.max_kl
        importance = 1.0
        if self.config.importance is not None:
            sequences, importance = self._weighted(sequences, self.config.importance)
        metrics = []
        for part in self._parts(sequences):
            batch = self._batch(part, self.config.objective.aggregate)
            add_signal(batch, part, critic=self.critic is not None)
            metrics.append(self._step(batch, lambda b, p: self._policy_terms(b, p, kl_stop)))
            if self.config.max_kl is not None and not kl_stop and metrics[-1]["kl_per_turn"] > self.config.max_kl:
                break
        result = {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}
        if self.critic is not None and (explained := explained_variance(sequences)) is not None:
            result["explained_variance"] = explained
        result["ratio_max"] = max(one["ratio_max"] for one in metrics)
        result["beta"] = self.kl_control.beta
        if self.config.importance is not None:
            result["importance_mean"] = importance
        result["steps"] = float(len(metrics))
        result["kl_stop"] = float(kl_stop)
        if self._reference is not None:
            self._last_kl = metrics[-1]["kl_per_turn"]
            self.kl_control.update(result["kl_per_turn"])
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
        sequences = trainable(sequences)
        batch = self._batch(sequences, "token_mean")
        batch.temperatures_N, batch.forms = None, None
        if weights:
            weights_S = [weights.get(s.role, weights.get(s.role.rpartition("-")[0], 1.0)) for s in sequences]
            batch.weights_N = batch.weights_N * torch.tensor(weights_S, device=self._net.device)[batch.rows_N]
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
        batch = self._batch(trainable(sequences), "token_mean")
        logps = np.empty(len(batch.targets_N))
        ref_logps, kl = np.empty_like(logps), np.empty_like(logps)
        with torch.no_grad(), self._net.evaluation():
            for part in batch.packs:
                hidden_NH, reference_NH = self._net.hidden(part), None
                if reference and self._reference is not None:
                    with self._as_reference():
                        reference_NH = self._net.hidden(part)
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

    def values(self, sequences: Sequence[TrainingSequence]) -> list[list[float]]:
        """What the critic expects before each trained token of each sequence, without learning.

        Args:
            sequences: each with trained tokens.

        Raises:
            ConfigError: there is no critic.
        """
        if self.critic is None:
            raise ConfigError("this learner has no critic: make it with critic=True")
        if not sequences:
            return []
        batch = self._batch(list(sequences), "token_mean")
        found = np.empty(len(batch.targets_N))
        with torch.no_grad(), self._net.evaluation():
            for part in batch.packs:
                found[part.tokens_N] = self.critic(self._net.hidden(part)).cpu().numpy()
        ends = np.cumsum([len(sequence.positions) for sequence in sequences])
        return [own.tolist() for own in np.split(found, ends[:-1])]

    def gradient_reach(self, sequence: TrainingSequence) -> list[int]:
        """Positions of one sequence whose predictions a loss over its trained tokens really moves.

        The gradient is read where it enters the network, at the hidden states before the output layer.
        """
        batch = self._batch([sequence], "token_mean")
        (part,) = batch.packs
        hidden_NH: list[Tensor] = []
        with self._net.evaluation():
            hidden = self._net.hidden(part, keep=hidden_NH)
            rows_NV = self._log_softmax(hidden, batch, part)
            loss = -rows_NV.gather(1, batch.targets_N[part.tokens_N][:, None]).sum()
            (gradient,) = torch.autograd.grad(loss, hidden_NH)
        reached = gradient.reshape(-1, gradient.shape[-1]).abs().amax(1) > 0
        depths = part.depths_RM.reshape(-1)
        return sorted(int(depths[node]) + 1 for node in reached.nonzero()[:, 0].tolist())

    def state_dict(self) -> dict[str, Any]:
        """All that a run needs to go on bit for bit; tensors are copies."""
        critic = {} if self.critic is None else {"critic": self.critic.state_dict()}
        return copy.deepcopy(
            {
                **critic,
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
        if ("critic" in state) != (self.critic is not None):
            there, here = ("a", "none") if "critic" in state else ("no", "one")
            raise ResumeError(
                f"the saved state has {there} critic and this learner {here}: resume with the same credit"
            )
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
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

    def _step(self, batch: Batch, terms: Any) -> dict[str, float]:
        """Accumulate the gradient of ``terms(batch, pack) -> (loss, sums)`` over packs, check it, and step."""
        self._optimizer.zero_grad(set_to_none=True)
        sums: dict[str, Tensor] = {}
        with self._net.evaluation():
            for part in batch.packs:
                loss, parts = terms(batch, part)
                loss.backward()
                for name, value in {"loss": loss.detach(), **parts}.items():
                    join = torch.maximum if name == "ratio_max" else torch.add
                    sums[name] = join(sums[name], value) if name in sums else value
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        clipped = {"grad_norm": gradients}
        if batch.value is not None and self.critic is not None:
            # By a norm of its own, lest a head that is far off make the policy's steps small.
            head = self.critic.parameters.values()
            clipped["value_grad_norm"] = [parameter.grad for parameter in head if parameter.grad is not None]
        for name, each in clipped.items():
            sums[name] = torch.nn.utils.get_total_norm(each)
        metrics = dict(zip(sums, torch.stack([value.double() for value in sums.values()]).tolist(), strict=True))
        for name in ("loss", *clipped):
            if not math.isfinite(metrics[name]):
                self._optimizer.zero_grad(set_to_none=True)
                raise NumericalError(
                    f"{_CHECKED[name]} is {metrics[name]} at optimizer step {self.step}; weights and optimizer are as "
                    "before it"
                )
        for name, each in clipped.items():
            if self.config.clip_norm is not None and metrics[name] > self.config.clip_norm:
                torch._foreach_mul_(each, self.config.clip_norm / (metrics[name] + 1e-6))
        metrics["lr"] = learning_rate(self.config, self.step)
        for group in self._optimizer.param_groups:
            group["lr"] = metrics["lr"] * group.get("factor", 1.0)
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

    def _policy_terms(self, batch: Batch, part: Pack, kl_stop: bool) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.old_logps_N is not None
        assert batch.advantages_N is not None
        config = self.config.objective
        weights_N = batch.weights_N[part.tokens_N]
        reference = None
        if self._reference is not None:
            with torch.no_grad(), self._as_reference():
                reference = self._net.hidden(part)

        hidden_NH = self._net.hidden(part)
        logps_N, entropy_N, kl_N = self._token_terms(batch, part, hidden_NH, reference)
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
        if self.critic is not None and batch.value is not None:
            value = self.config.value
            value_loss = self.critic.loss(hidden_NH, batch.value, part.tokens_N, detach=value.detach or kl_stop)
            sums["value_loss"] = value_loss.detach()
            loss = loss + value.coef * value_loss
        return loss, sums

    def _supervised_terms(self, batch: Batch, part: Pack) -> tuple[Tensor, dict[str, Tensor]]:
        logps_N, entropy_N, _ = self._token_terms(batch, part, self._net.hidden(part), None)
        loss = -(logps_N * batch.weights_N[part.tokens_N].to(logps_N.dtype)).sum()
        return loss, {"entropy": entropy_N.sum()}

    def _token_terms(
        self, batch: Batch, part: Pack, hidden_NH: Tensor, reference_NH: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Log-prob, entropy (detached) and KL of each trained token of a pack; logits live one tile at a time.

        ``hidden_NH`` are the policy's hidden states and ``reference_NH`` the reference's, whose logits live as long as
        the policy's.
        """
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
        plain = type(self._net.head) is nn.Linear and self._net.head.bias is None and batch.forms is None
        large = len(hidden_NH) * self._net.head.weight.shape[0] > _LOGITS_THAT_COUNT
        if large and plain and not exact:
            found = self._fused_terms(batch, part, hidden_NH, reference_NH)
        elif len(tiles) == 1:
            found = tile(hidden_NH, *tiles[0])
        else:
            pieces = [checkpoint(tile, hidden_NH[begin:end], begin, end, use_reentrant=False) for begin, end in tiles]
            found = tuple(torch.cat(column) for column in zip(*pieces, strict=True))
        return found[0], found[1], found[2] if len(found) > 2 else None

    def _fused_terms(
        self, batch: Batch, part: Pack, hidden_NH: Tensor, reference_NH: Tensor | None
    ) -> tuple[Tensor, ...]:
        """The same for an output layer that is one matrix, where no distribution is compared as a whole."""
        targets_N = batch.targets_N[part.tokens_N]
        heat_N = None if batch.temperatures_N is None else batch.temperatures_N[part.tokens_N]
        begin, end = self._tiles(len(hidden_NH))[0]
        size = end - begin
        logps_N, entropy_N = token_logps_and_entropy(
            hidden_NH, self._net.head.weight, targets_N, temperatures_N=heat_N, rows=size
        )
        if reference_NH is None:
            return logps_N, entropy_N
        with torch.no_grad(), self._as_reference():
            other_N = token_logps(reference_NH, self._net.head.weight, targets_N, temperatures_N=heat_N, rows=size)
        return logps_N, entropy_N, self._sampled_kl(logps_N, other_N)

    def _sampled_kl(self, logps_N: Tensor, other_N: Tensor) -> Tensor:
        estimator = self.config.kl.estimator
        assert estimator != "exact"
        return kl_per_token(logps_N, other_N, estimator=estimator, linear_from=10.0 if estimator == "k3" else None)

    def _tiles(self, count: int) -> list[tuple[int, int]]:
        """Ranges of trained tokens whose logits may exist at once."""
        size = max(_LOGITS_AT_ONCE // self._net.head.weight.shape[0], 1)
        return [(at, min(at + size, count)) for at in range(0, count, size)]

    def _log_softmax(self, hidden_RH: Tensor, batch: Batch, part: Pack, begin: int = 0) -> Tensor:
        """(R, V) log-probs of some trained tokens of a pack, from number ``begin`` on."""
        end = begin + len(hidden_RH)
        heat_N = None if batch.temperatures_N is None else batch.temperatures_N[part.tokens_N[begin:end]]
        excluded_RV = None
        if batch.forms is not None:
            tokens_R = torch.from_numpy(part.tokens_N[begin:end]).to(self._net.device)
            excluded_RV = batch.forms.excluded_FV[batch.forms.number_N[tokens_R]]
        return log_probs(self._net.head, hidden_RH, heat_N, excluded_RV)

    def _as_reference(self) -> AbstractContextManager[None]:
        assert self._reference is not None
        return self._net.speaking_as(self._reference)

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

    def _batch(self, sequences: list[TrainingSequence], aggregate: Aggregate) -> Batch:
        config = self.config
        return batch_of(
            sequences,
            self._net,
            budget=config.micro_batch,
            aggregate=aggregate,
            norm_const=config.objective.norm_const,
        )

    def _layout(self, batch: Batch, part: Pack) -> tuple[Tensor, Tensor]:
        """(B, T) places of a pack's tokens by sequence, and which of them are real."""
        count = len(part.tokens_N)
        if self.config.objective.level == "token":
            index = torch.arange(count, device=self._net.device)[None]
            return index, torch.ones_like(index, dtype=torch.bool)
        _, counts_B = np.unique(batch.rows_N[part.tokens_N], return_counts=True)
        mask_BT = np.arange(counts_B.max()) < counts_B[:, None]
        index_BT = np.zeros(mask_BT.shape, np.int64)
        index_BT[mask_BT] = np.arange(count)
        return torch.from_numpy(index_BT).to(self._net.device), torch.from_numpy(mask_BT).to(self._net.device)


def _optimizer(weights: list[nn.Parameter], config: OptimizerConfig, critic: Critic | None) -> torch.optim.Optimizer:
    """The optimizer that a configuration asks for; the critic's head is a group of its own.

    Raises:
        ConfigError: its library is missing.
    """
    parameters: Any = weights if critic is None else [{"params": weights}, critic.group()]
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


def _entropy(logps_RV: Tensor, *, ids_left_out: bool) -> Tensor:
    """(R,) entropy in nats of each row."""
    if ids_left_out:
        return -(logps_RV.exp() * logps_RV).nan_to_num(0.0).sum(1)
    found: Tensor = torch.linalg.vecdot(logps_RV.exp(), logps_RV)
    return -found
