"""One forward pass of a transformers network: masks of our own, an adapter for each row, nothing left behind."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from arena.agents.models import Model

__all__ = ["Network"]

_BASE = "__base__"
"""peft's name for a row without an adapter."""


class Network:
    """A model's network, asked with keys and values of our own.

    Args:
        model: network and encoder.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.module: Any = model.network
        self._masks: dict[tuple[int, int], Tensor] = {}
        config = model.base.config
        # The cache argument was renamed in transformers 5; both names are in use.
        parameters = inspect.signature(model.base.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        # Own masks and kept prefixes need plain attention over all slots; windows count slots and must not see holes.
        windowed = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
        windowed = windowed or getattr(config, "sliding_window", None) is not None
        self.plain = not windowed and getattr(config, "_attn_implementation", "") in {"eager", "sdpa"}
        """Whether rows may be kept, gathered and put together at will."""
        self.adapted = hasattr(self.module, "peft_config")

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.module.parameters()).device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Of the embeddings, and so of the masks."""
        embeddings: Any = self.model.base.get_input_embeddings()
        dtype: torch.dtype = embeddings.weight.dtype
        return dtype

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Evaluation mode without gradients; put back afterwards."""
        training = self.module.training
        if training:
            self.module.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            if training:
                self.module.train()

    def version(self) -> object:
        """Changes with every in-place update and every exchange of a tensor."""
        return [(p.data_ptr(), p._version) for p in self.module.parameters() if not p.is_inference()]

    def forward(
        self,
        ids_BT: Tensor,
        positions: Tensor,
        cache: Any,
        valid: Tensor | None,
        width: int,
        adapters: Sequence[str | None],
        keep: int = 1,
    ) -> Tensor:
        """Logits (B, keep, V) of the last positions; ``cache`` of ``width`` slots grows by T.

        Args:
            ids_BT: what is new.
            positions: (B or 1, T) place of each id in its row.
            cache: a transformers cache.
            valid: (B, width + T) bool, which slots hold a token; None if all do.
            width: slots of the cache.
            adapters: of each row.
            keep: how many positions have logits.
        """
        batch, new = ids_BT.shape
        mask: Tensor | None
        if self.plain:
            mask = self._mask(new, width + new, valid)
        else:
            mask = valid if valid is not None else ids_BT.new_ones(batch, width + new)
            mask = mask.long()
        with self._speaking(adapters):
            out = self.module(
                input_ids=ids_BT,
                position_ids=positions,
                attention_mask=mask,
                use_cache=True,
                logits_to_keep=keep,
                **{self._cache_name: cache},
            )
        logits: Tensor = out.logits
        return logits

    def _mask(self, new: int, total: int, valid: Tensor | None) -> Tensor:
        """Additive mask (B or 1, 1, new, total): causal, and blind to slots without a token."""
        dtype, device = self.dtype, self.device
        plain = self._masks.get((new, total))
        if plain is None or plain.dtype != dtype or plain.device != device:
            if len(self._masks) > 4096:
                self._masks.clear()
            blind = torch.full((new, total), _blind(dtype), dtype=dtype, device=device)
            plain = self._masks[new, total] = blind.triu(total - new + 1)[None, None]
        if valid is None:
            return plain
        return plain.masked_fill(~valid[:, None, None, :], _blind(dtype))

    # Adapters

    @cached_property
    def mixes(self) -> bool:
        """Whether rows of one batch may have different adapters; DoRA and trained copies of whole layers cannot."""
        configs = self.module.peft_config.values() if self.adapted else ()
        return all(
            getattr(config, "peft_type", None) == "LORA"
            and not getattr(config, "use_dora", False)
            and not getattr(config, "modules_to_save", None)
            and not getattr(config, "trainable_token_indices", None)
            for config in configs
        )

    @contextmanager
    def _speaking(self, adapters: Sequence[str | None]) -> Iterator[None]:
        """Each row through its adapter."""
        if not self.adapted or all(name is not None and name == self.module.active_adapter for name in adapters):
            yield
        elif self.mixes:
            with self._row_by_row([name or _BASE for name in adapters]):
                yield
        else:
            with self._switched(adapters[0]):
                yield

    @contextmanager
    def _row_by_row(self, names: list[str]) -> Iterator[None]:
        """peft's mixed batches: each LoRA layer is told the adapter of each row.

        Its own ``forward(adapter_names=...)`` does the same, but leaves its hooks behind when the pass fails.
        """

        def tell(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**kwargs, "adapter_names": names}

        with ExitStack() as hooks:
            for layer in self._lora_layers():
                hooks.callback(layer.register_forward_pre_hook(tell, with_kwargs=True).remove)
            yield

    def _lora_layers(self) -> Sequence[nn.Module]:
        from peft.tuners.lora import LoraLayer

        layers: list[nn.Module] = list(self.module.modules())
        return [layer for layer in layers if isinstance(layer, LoraLayer)]

    @contextmanager
    def _switched(self, adapter: str | None) -> Iterator[None]:
        """The whole network speaks with one adapter."""
        # Both switches also choose what is trainable; a sampler must leave that to the trainer.
        network = self.module
        before, trainable = network.active_adapter, {p for p in network.parameters() if p.requires_grad}
        try:
            if adapter is None:
                with network.disable_adapter():
                    yield
            else:
                network.set_adapter(adapter)
                yield
        finally:
            network.set_adapter(before)
            for parameter in network.parameters():
                parameter.requires_grad_(parameter in trainable)


def _blind(dtype: torch.dtype) -> float:
    """Logit of a slot that must not be seen. Finite, also in the float32 of a softmax over float64 logits: the row of a
    padding slot, which sees nothing, must not become nan and spread through the values."""
    return max(torch.finfo(dtype).min, -1e30)
