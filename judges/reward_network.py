"""Networks with one number as output: a transformer and a reward head, which works in float32 whatever the body does.

Scores are the same to the last bit in every batch: small causal networks work on tiles of a fixed number of rows, each
padded at the end to a length that depends on itself alone, all others take one row at a time (see
`arena.judges.reading`). Training pads freely; there the last bits may differ.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from arena.agents.models import save_base
from arena.agents.quiet import quiet
from arena.protocols.errors import ConfigError
from arena.protocols.files import writing

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ExchangeEncoder", "PairEncoder", "RewardNetwork", "Row"]

Row = tuple[int, ...]
"""Token ids of one prompt with its reply."""
SMALL = 2_000_000
"""Parameters below which a tile costs less than the overhead of its calls."""


class ExchangeEncoder(Protocol):
    """Turns a prompt and a reply into token ids."""

    def encode_exchange(self, prompt: str, reply: str) -> list[int]:
        """See `arena.agents.encoders.Encoder.encode_exchange`."""
        ...

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """To save beside the weights."""
        ...


class PairEncoder:
    """For tokenizers without a chat template: prompt and reply as a pair of texts, as BERT's kin read them.

    Control tokens spelt out in a text stay text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer."""
        return self._tokenizer

    def encode_exchange(self, prompt: str, reply: str) -> list[int]:
        """See `ExchangeEncoder`."""
        encoded = self._tokenizer(prompt, reply, split_special_tokens=True, verbose=False)
        ids: list[int] = encoded["input_ids"]
        return ids


@dataclass(eq=False)
class RewardNetwork:
    """A scorer of rows of token ids."""

    network: Any
    """A transformers model for sequence classification with one label, or the peft model around it."""
    encoder: ExchangeEncoder
    source: str | dict[str, Any] | None = None
    """Spec under which the body of a LoRA can be opened again; None: it is saved with it."""
    tile: int | None = None
    """Rows computed at once; by default 128 for small causal networks, else 1. With another number the last bits may
    depend on what else is in the tile: larger ones are for networks on a GPU."""
    _tile: int = field(init=False)

    def __post_init__(self) -> None:
        if self.base.config.num_labels != 1:
            raise ConfigError(
                f"a reward model has one output; {type(self.base).__name__} has {self.base.config.num_labels} labels"
            )
        small = sum(weight.numel() for weight in self.network.parameters()) < SMALL
        self._tile = self.tile or (128 if small and self.causal else 1)
        if self._tile > 1 and not self.causal:
            raise ConfigError(f"tile={self.tile}: {type(self.base).__name__} reads to both sides, one row at a time")

    @property
    def base(self) -> Any:
        """The transformers model itself, without a peft wrapper."""
        return self.network.get_base_model() if hasattr(self.network, "peft_config") else self.network

    @property
    def causal(self) -> bool:
        """Whether it reads from left to right and scores at the last token, as heads on language models do."""
        return hasattr(self.base, "score")

    @property
    def max_length(self) -> int | None:
        """Most tokens that a row may have; None if the model does not say."""
        return getattr(self.base.config, "max_position_embeddings", None)

    def encode(self, prompt: str, reply: str) -> Row:
        """Token ids of a prompt and its reply.

        Raises:
            ConfigError: the text cannot be encoded.
        """
        return tuple(self.encoder.encode_exchange(prompt, reply))

    def forward(self, rows: Sequence[Row], length: int | None = None) -> Tensor:
        """Scores (B,), float32, with gradients where the mode allows; padded to ``length`` or the longest row."""
        length = length or max(map(len, rows))
        base = self.base
        padding = base.config.pad_token_id
        padded = [row + (padding or 0,) * (length - len(row)) for row in rows]
        ids_BT = torch.tensor(padded, device=base.device)
        if not self.causal:
            mask_BT = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows], device=base.device)
            logits_B1: Tensor = self.network(input_ids=ids_BT, attention_mask=mask_BT, **self._types(ids_BT)).logits
            return logits_B1[:, 0].float()
        # The padding comes after everything that is read, so causal attention needs no mask.
        hidden_BTH = base.base_model(input_ids=ids_BT, use_cache=False).last_hidden_state
        last_B = torch.tensor([_read_at(row, padding) for row in rows], device=base.device)
        hidden_BH = hidden_BTH[torch.arange(len(rows), device=base.device), last_B]
        return self._head(hidden_BH)

    def _types(self, ids_BT: Tensor) -> dict[str, Tensor]:
        """Which tokens belong to the reply, for networks that want to be told: those after the first separator."""
        tokenizer = self.encoder.tokenizer
        if "token_type_ids" not in tokenizer.model_input_names or getattr(self.base.config, "type_vocab_size", 0) < 2:
            return {}
        is_end_BT = (ids_BT == tokenizer.sep_token_id).long()
        return {"token_type_ids": ((is_end_BT.cumsum(1) - is_end_BT) > 0).long()}

    def _head(self, hidden_BH: Tensor) -> Tensor:
        head = self.base.score
        if hasattr(head, "modules_to_save"):
            head = head.modules_to_save["default"]  # where peft keeps the trained copy
        scores_B1 = torch.nn.functional.linear(hidden_BH.float(), head.weight.float())
        return scores_B1[:, 0]

    def score(self, rows: Sequence[Row]) -> list[float]:
        """One score a row, in order, whatever else is in the batch."""
        found: dict[Row, float] = dict.fromkeys(rows, 0.0)
        buckets: dict[int, list[Row]] = {}
        step = 4 if self._tile > 1 else 1
        for row in found:
            buckets.setdefault(-(-len(row) // step) * step, []).append(row)
        self.network.eval()
        with torch.inference_mode():
            for length, members in buckets.items():
                for start in range(0, len(members), self._tile):
                    tile = members[start : start + self._tile]
                    filled = tile + [tile[0]] * (self._tile - len(tile))
                    found.update(zip(tile, self.forward(filled, length).tolist()[: len(tile)], strict=True))
        return [found[row] for row in rows]

    def frozen_copy(self) -> RewardNetwork:
        """The same with weights of its own, which nobody trains."""
        network = copy.deepcopy(self.network).eval().requires_grad_(False)
        return RewardNetwork(network, self.encoder, self.source, self.tile)

    @quiet()
    def save(self, folder: Path) -> None:
        """Write it where `load_reward_network` finds it; a LoRA without its body if that has a `source`.

        Raises:
            StoreError: the folder cannot be written.
        """
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if hasattr(self.network, "peft_config"):
                if self.source is None:
                    save_base(self.base, folder / "base")
                    self.encoder.tokenizer.save_pretrained(folder / "base")
                self.network.save_pretrained(folder, save_embedding_layers=False)
            else:
                self.network.save_pretrained(folder)
            self.encoder.tokenizer.save_pretrained(folder)


def _read_at(row: Row, padding: int | None) -> int:
    """Where the head reads: the last token that is no padding, as transformers has it (in some vocabularies the end
    token is the padding token)."""
    return next((place for place in range(len(row) - 1, -1, -1) if row[place] != padding), len(row) - 1)
