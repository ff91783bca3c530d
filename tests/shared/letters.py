"""A chat model of letters that every backend can serve, and the trap of its tokenizer."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from arena.agents.encoders import ChatEncoder
from arena.agents.models import Model, add_lora

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}:{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}<s>assistant:"
    "{% endif %}"
)


def close_engine(engine: Any) -> None:
    """End an engine and what vLLM leaves to the collector, whose complaints would fall on another test."""
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        engine.close()
        gc.collect()


def letters(*, lora: int | None = None, spread: float = 0.3, rank: int = 4, name: str = "letters") -> Model:
    """Speaks a's and b's only, and ends now and then; read back, ``a``, ``b`` drawn one by one would become ``ab``.

    Dropout is on in training mode, padding is the end token, and what is said depends on all that was said before.

    Args:
        lora: seed of an adapter that changes the model noticeably; None: no adapter.
        spread: standard deviation of the adapter's second factor.
        rank: of the adapter.
        name: of the model.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "b"), ("ab", "a"), ("b", "a"), ("ba", "ba")]
    vocabulary = [*alphabet, *("".join(pair) for pair in merges)]
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<e>", bos_token="<s>", pad_token="<e>", chat_template=TEMPLATE
    )
    end, start = tokenizer.eos_token_id, tokenizer.bos_token_id
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,  # of 32: the smallest head that vLLM has on a CPU
        max_position_embeddings=512,
        initializer_range=0.1,
        tie_word_embeddings=False,
        attention_dropout=0.5,
        pad_token_id=end,
        eos_token_id=end,
        bos_token_id=start,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: Any = LlamaForCausalLM(config).eval()
        head = torch.randn(len(tokenizer), 64) * 0.25
    said = [tokenizer.convert_tokens_to_ids(token) for token in ("a", "b", "ab", "ba")]
    with torch.no_grad():  # the first place of every hidden state is large, so that its weights in the head are a bias
        network.model.embed_tokens.weight[:, 0] = 2.0
        head[:, 0] = -4.0
        head[said, 0] = 0.0
        head[end, 0] = -0.3
        network.lm_head.weight.copy_(head)
    model = Model(network, ChatEncoder(tokenizer), name)
    if lora is None:
        return model
    model = add_lora(model, r=rank, seed=lora, targets=["q_proj", "v_proj", "down_proj"])
    shift(model, lora, spread)
    return model


def shift(model: Model, seed: int, spread: float = 0.3) -> None:
    """Give the adapter other weights in place, as an optimizer does."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            if "lora_B" in name:
                weight.normal_(0.0, spread, generator=noise)


def plain_logps(model: Model, context: Sequence[int], ids: Sequence[int], temperature: float = 1.0) -> list[float]:
    """The independent computation: one sequence, no cache, no mask, no padding."""
    logps_TV = plain_logits(model, [*context, *ids]).div(temperature).log_softmax(-1)
    start = len(context) - 1
    return [float(logps_TV[start + place, token]) for place, token in enumerate(ids)]


def plain_logits(model: Model, ids: Sequence[int]) -> Tensor:
    """Logits (T, V) of a forward pass, float64."""
    network: Any = model.network
    was = network.training
    network.eval()
    with torch.no_grad():
        logits: Tensor = network(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].double()
    network.train(was)
    return logits
