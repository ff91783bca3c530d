from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from arena.agents import AGENTS
from arena.agents.encoders import WordEncoder
from arena.agents.models import add_lora, check_lora, check_model, load_model, open_model, tiny
from arena.protocols.errors import ConfigError

WORDS = "claims A B d{0..9} b{0..3}={0..4}"


def logits(network: Any) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = network(input_ids=torch.tensor([[1, 5, 9, 12]])).logits
    return out


def test_a_tiny_model_is_a_function_of_its_arguments_and_leaves_the_global_random_state() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = tiny(WORDS, seed=3), tiny(WORDS, seed=3), tiny(WORDS, seed=4)
    lora = add_lora(two, seed=1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(logits(one.network), logits(lora.network))  # a new adapter changes nothing
    assert not torch.equal(logits(one.network), logits(other.network))


def test_the_demo_debater_has_the_size_that_is_known_to_learn() -> None:
    model = tiny("claims A B image d{0..9} b{0..15}={0..4}")
    v, h, i, layers = 3 + 4 + 10 + 80, 64, 128, 2
    expected = v * h + layers * (4 * h * h + 3 * h * i + 2 * h) + h  # tied embeddings, attention, gated MLP, norms
    assert sum(p.numel() for p in model.network.parameters()) == expected
    assert model.network.config.bos_token_id == WordEncoder.bos_id
    assert model.max_length == 512


def test_a_saved_model_opens_here_and_with_the_auto_classes(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = tiny(WORDS, tied=False)
    folder = model.save(tmp_path / "gen3")
    again = load_model(folder)
    assert again.name == "gen3"
    assert torch.equal(logits(again.network), logits(model.network))
    assert isinstance(again.encoder, WordEncoder)
    assert again.encoder.words == model.encoder.words  # type: ignore[attr-defined]
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(folder)), logits(model.network))
    assert AutoTokenizer.from_pretrained(folder)("b3=4 claims")["input_ids"] == [*again.encoder.encode("b3=4 claims")]


@pytest.mark.parametrize("adapters", [("default",), ("left", "right")])
def test_a_model_with_adapters_saves_them_and_its_untouched_base(tmp_path: Path, adapters: tuple[str, ...]) -> None:
    base = logits(tiny(WORDS).network)
    model = tiny(WORDS)
    for seed, adapter in enumerate(adapters):
        model = add_lora(model, r=4, seed=seed, adapter=adapter)
    network: Any = model.network
    with torch.no_grad():
        for number, (name, weight) in enumerate(network.named_parameters()):
            if "lora_B" in name:
                weight.normal_(generator=torch.Generator().manual_seed(number))
    again: Any = load_model(model.save(tmp_path / "gen1")).network
    for adapter in adapters:
        network.set_adapter(adapter)
        again.set_adapter(adapter)
        assert torch.equal(logits(again), logits(network))
        assert not torch.allclose(logits(again), base)
    with again.disable_adapter():
        assert torch.equal(logits(again), base)
    assert any(p.requires_grad for p in again.parameters())


def test_agents_of_one_spec_share_the_network_and_trainers_get_their_own(tmp_path: Path) -> None:
    spec = {"kind": "tiny", "words": WORDS, "seed": 9}
    one, two = AGENTS.build(spec), AGENTS.build({**spec, "temperature": 0.5})
    other = AGENTS.build({**spec, "seed": 10})
    networks = [agent.backend.model.network for agent in (one, two, other)]  # type: ignore[attr-defined]
    assert networks[0] is networks[1]
    assert networks[0] is not networks[2]
    assert open_model(spec).network is not open_model(spec).network
    folder = open_model(spec).save(tmp_path / "v1")
    saved: Any = AGENTS.build(f"generation:path={folder},temperature=0,max_tokens=3")
    assert (saved.name, saved.sampling.temperature, saved.max_tokens) == ("v1", 0, 3)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tiny:seed=1", "words"),
        ("tiny:words=a b,hiden=4", "hiden"),
        ("tiny:words=a b,hidden=10,heads=4", "multiple"),
        ("generation:path=/nowhere/at/all", "no config.json"),
        ("nobody/has-this-model", "cannot be opened"),
        ({"kind": "typo"}, "not a kind of model"),
    ],
)
def test_a_model_that_cannot_be_opened_says_why(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_model(spec)


@pytest.mark.parametrize(
    ("spec", "way_out"),
    [
        ({"kind": "tinny", "words": "a"}, "Did you mean 'tiny'"),
        ("tinny:words=a", "Did you mean 'tiny'"),
        ("smolm2", "Did you mean 'smollm2'"),
        ("a/b/c", "Kinds are"),
        ("generation", "needs 'path'"),
        ({"kind": "tiny", "words": "a", "hiden": 8}, "Did you mean 'hidden'"),
        ({"kind": "tiny", "words": "{0..x}"}, "0..x"),
        ({"kind": "tiny", "words": 5}, "neither a text nor a list"),
    ],
)
def test_a_model_that_cannot_be_opened_is_refused_before_anything_is_opened(spec: Any, way_out: str) -> None:
    with pytest.raises(ConfigError, match=way_out):
        check_model(spec)


def test_what_could_be_opened_passes_unopened(tmp_path: Path) -> None:
    for spec in ("smollm2", "gpt2", "org/model-1.5B", str(tmp_path), "tiny:words=a b", {"kind": "hf", "model": "x"}):
        check_model(spec)
    check_lora({"r": 4, "targets": ["q_proj"]})
    with pytest.raises(ConfigError, match="Did you mean 'alpha'"):
        check_lora({"alfa": 4})
