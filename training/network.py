"""The network of a learner: hidden states of packed sequences, and where its output layer sits.

Rows of a pack are token trees (`arena.training.packing`), so that the network is given masks and positions of our own.
Whether it computes these as it computes plain sequences is tried out once, when it is wrapped.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer

from arena.protocols.errors import ConfigError
from arena.training.packing import Pack, Trunks, pack
from arena.training.sequences import TrainingSequence

__all__ = ["Reference", "TrainedNetwork", "log_probs"]

Reference: TypeAlias = Mapping[str, Tensor] | Literal["adapter off"]
"""Other weights for the trained parameters, by name; or the base without its adapter."""


class TrainedNetwork:
    """A transformers causal language model, or a PEFT model around one, as training sees it.

    Args:
        module: the network.
        adapter: the LoRA adapter that is trained, if it has several.
        checkpointing: compute activations of each layer again in the backward pass.

    Raises:
        ConfigError: nothing to train, an architecture whose output layer cannot be taken apart, or one that cannot
            compute activations again.
    """

    def __init__(self, module: Any, *, adapter: str | None = None, checkpointing: bool = False) -> None:
        self.module = module
        self.adapter = adapter if hasattr(module, "peft_config") else None
        if self.adapter is not None:
            module.set_adapter(self.adapter)
        self.parameters: dict[str, nn.Parameter] = {
            name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad
        }
        """The trained ones."""
        if not self.parameters:
            raise ConfigError("the network has no trainable parameter: add an adapter, or unfreeze it")
        base = module.get_base_model() if hasattr(module, "get_base_model") else module
        self._decoder = base.get_decoder()
        self.head = base.get_output_embeddings()
        """The output layer."""
        # The cache argument was renamed in transformers 5; both names are in use.
        self._cache_name = "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"
        self.device = next(iter(self.parameters.values())).device
        self._checkpointing = checkpointing
        self.trees = self._probe()
        """Whether token trees give what sequences give."""
        self.token_cost = self._probe_trunks() if self.trees and not checkpointing else None
        """What a token costs beside attention, for `pack`; None where trunks cannot be computed apart."""
        if checkpointing:
            if not getattr(base, "supports_gradient_checkpointing", False):
                raise ConfigError(f"{type(base).__name__} cannot compute activations again: set checkpointing to false")
            # The name changed within transformers 5.
            enable = getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable
            enable({"use_reentrant": False})

    def hidden(self, part: Pack, keep: list[Tensor] | None = None) -> Tensor:
        """(N, H) hidden states that predict the trained tokens of a pack; ``keep`` receives those of all nodes."""
        nodes_N = torch.from_numpy(part.nodes_N).to(self.device)
        if part.trunks is not None:
            return torch.cat(self._forward_branches(part, part.trunks)).index_select(0, nodes_N)
        hidden_RMH = self._forward(part)
        if keep is not None:
            keep.append(hidden_RMH)
        return hidden_RMH.reshape(-1, hidden_RMH.shape[-1]).index_select(0, nodes_N)

    def _forward(self, part: Pack) -> Tensor:
        """(R, M, H) hidden states of all nodes."""
        ids_RM = torch.from_numpy(part.ids_RM).to(self.device)
        if part.mask_RMM is None:
            # Padding is on the right, where causal attention never looks.
            return self._decoder(input_ids=ids_RM, use_cache=False).last_hidden_state  # type: ignore[no-any-return]
        return self._decoder(  # type: ignore[no-any-return]
            input_ids=ids_RM,
            attention_mask=self._additive(part.mask_RMM),
            position_ids=torch.from_numpy(part.depths_RM).to(self.device),
            use_cache=False,
        ).last_hidden_state

    def _forward_branches(self, part: Pack, trunks: Trunks) -> list[Tensor]:
        """(T * P, H) and (R * M, H) hidden states of trunks and of the rows behind them; gradients reach the trunks
        through their keys and values, too."""
        assert part.mask_RMM is not None
        cache: Any = DynamicCache()
        trunk_TPH = self._decoder(
            input_ids=torch.from_numpy(trunks.ids_TP).to(self.device), use_cache=True, **{self._cache_name: cache}
        ).last_hidden_state
        trunk_R = torch.from_numpy(trunks.trunk_R).to(self.device)
        for layer in cache.layers:
            layer.keys = layer.keys.index_select(0, trunk_R)
            layer.values = layer.values.index_select(0, trunk_R)
        rows_RMH = self._decoder(
            input_ids=torch.from_numpy(part.ids_RM).to(self.device),
            attention_mask=self._additive(part.mask_RMM),
            position_ids=torch.from_numpy(part.depths_RM).to(self.device),
            use_cache=True,
            **{self._cache_name: cache},
        ).last_hidden_state
        return [hidden.reshape(-1, hidden.shape[-1]) for hidden in (trunk_TPH, rows_RMH)]

    def _additive(self, mask_RMK: NDArray[np.bool_]) -> Tensor:
        """(R, 1, M, K) 0 where a token attends, minus infinity elsewhere."""
        mask = torch.from_numpy(mask_RMK).to(self.device)
        additive_RMK = torch.zeros(mask.shape, dtype=self.head.weight.dtype, device=self.device)
        return additive_RMK.masked_fill_(~mask, -math.inf)[:, None]

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Its own adapter speaks, without dropout; the mode is put back afterwards."""
        training = self.module.training
        self.module.eval()
        if self._checkpointing:
            for module in self.module.modules():
                # A layer asks its own flag; what is inside of it, dropout among it, stays in evaluation mode.
                module.training = isinstance(module, GradientCheckpointingLayer)
        if self.adapter is not None and self.module.active_adapter != self.adapter:
            self.module.set_adapter(self.adapter)
        try:
            yield
        finally:
            self.module.train(training)

    @contextmanager
    def speaking_as(self, reference: Reference) -> Iterator[None]:
        """Put other weights in place: without gradient, and never between a forward and its backward pass."""
        if reference == "adapter off":
            with self.module.disable_adapter():
                yield
            return
        current = {name: parameter.data for name, parameter in self.parameters.items()}
        try:
            for name, parameter in self.parameters.items():
                parameter.data = reference[name]
            yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.data = current[name]

    def _probe(self) -> bool:
        """Whether the network computes token trees as it computes sequences; checks the way to its logits as well."""
        first = TrainingSequence([0, 1, 2, 3], [2, 3], None, [0, 0], "probe", "probe", 2)
        second = TrainingSequence([0, 1, 3, 2], [2, 3], None, [0, 0], "probe", "probe", 2)
        with torch.no_grad(), self.evaluation():
            (plain,) = pack([first, second], budget=16, trees=False)
            hidden_NH = self.hidden(plain)
            logits_NV = self.head(hidden_NH)
            ids = torch.tensor([first.ids[:3], second.ids[:3]], device=self.device)
            expected_NV = self.module(input_ids=ids, use_cache=False).logits[:, 1:].reshape(logits_NV.shape)
            rounding = 1e-3 if logits_NV.dtype in (torch.float32, torch.float64) else 0.1
            if not torch.allclose(logits_NV, expected_NV, rtol=rounding, atol=rounding):
                raise ConfigError(
                    f"{type(self.module).__name__} changes its logits after the output layer: it cannot be trained"
                )
            if _local_attention(self.module.config):
                return False
            (tree,) = pack([first, second], budget=16)
            try:
                return torch.allclose(self.hidden(tree), hidden_NH, rtol=rounding, atol=rounding)
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
        rounding = 1e-3 if self.head.weight.dtype in (torch.float32, torch.float64) else 0.1
        with torch.no_grad(), self.evaluation():
            try:
                same = torch.allclose(self.hidden(apart), self.hidden(plain), rtol=rounding, atol=rounding)
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
                # A network that keeps something else than keys and values, or too short for the probe.
                return None
        # Of a block's 12 H^2 multiplications for a token and 2 H for a pair; attention runs at two thirds of the speed.
        return 4 * int(self.head.weight.shape[1]) if same else None


def log_probs(head: nn.Module, hidden_NH: Tensor, temperatures_N: Tensor | None, excluded_NV: Tensor | None) -> Tensor:
    """(N, V) log-probs as the sampler had them: at its temperature, over the ids that it drew from; float32 or 64."""
    logits_NV: Tensor = head(hidden_NH)
    if logits_NV.dtype in (torch.float16, torch.bfloat16):
        logits_NV = logits_NV.float()
    if temperatures_N is not None:
        logits_NV = logits_NV / temperatures_N[:, None].to(logits_NV.dtype)
    if excluded_NV is not None:
        logits_NV = logits_NV.masked_fill(excluded_NV, -math.inf)
    return torch.log_softmax(logits_NV, -1)


def _local_attention(config: Any) -> bool:
    """Whether some layers see a window only, which a mask of our own would undo."""
    kinds = getattr(config, "layer_types", None) or ()
    return bool(getattr(config, "sliding_window", None)) or any(kind != "full_attention" for kind in kinds)
