"""What identifies weights: their content, wherever it comes from and whatever it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from arena.agents import weights
from arena.agents.encoders import WordEncoder
from arena.agents.models import Model, add_lora, load_model, tiny
from arena.agents.weights import FrozenWeights
from arena.protocols.errors import ConfigError


def made(**changes: Any) -> Model:
    return tiny(["a", "b", "c"], **{"hidden": 16, "heads": 2, "layers": 1, **changes})


def digest(model: Model, adapter: str | None = "default") -> str:
    return FrozenWeights(model, adapter).digest()


def test_equal_weights_have_one_digest_whatever_they_are_called_and_wherever_they_lie(tmp_path: Path) -> None:
    made().save(tmp_path / "here")
    made().save(tmp_path / "there")
    found = {digest(load_model(tmp_path / place, name=place)) for place in ("here", "there")}
    assert len(found | {digest(load_model(tmp_path / "here"))}) == 1
    assert digest(made(name="x")) == digest(made(name="y"))


@pytest.mark.parametrize(
    "other",
    [
        lambda: made(seed=1),
        lambda: made(max_length=64),  # the same tensors, another configuration
        lambda: Model(made().network.double(), made().encoder, "tiny"),
        lambda: add_lora(made()),
    ],
)
def test_whatever_changes_what_is_drawn_changes_the_digest(other: Any) -> None:
    assert digest(other()) != digest(made())


def test_other_end_tokens_are_another_model() -> None:
    encoder = WordEncoder(["a", "b", "c"])
    encoder.end_ids = (3,)
    assert digest(Model(made().network, encoder, "tiny")) != digest(made())


def test_one_number_in_an_adapter_makes_other_weights() -> None:
    one, other = add_lora(made()), add_lora(made())
    assert digest(one) == digest(other)
    with torch.no_grad():
        next(w for name, w in other.network.named_parameters() if "lora_B" in name)[0, 0] = 1e-6
    assert digest(one) != digest(other)


def test_two_adapters_of_one_network_and_its_base_are_three_models() -> None:
    model = add_lora(add_lora(made()), adapter="second", seed=1)
    assert len({digest(model, name) for name in ("default", "second", None)}) == 3


@pytest.mark.parametrize("change", ["in place", "dtype"])
def test_weights_that_change_are_no_frozen_weights(change: str) -> None:
    model = made()
    frozen = FrozenWeights(model)
    if change == "in place":
        with torch.no_grad():
            next(iter(model.network.parameters())).add_(1.0)
    else:
        model.network.to(torch.bfloat16)
    with pytest.raises(ConfigError, match=r"the weights of 'tiny' were changed or moved.*leave out 'cache'"):
        frozen.digest()
    assert digest(model) != digest(made())


def test_a_network_is_read_once_as_long_as_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Model] = []
    known = weights._digest

    def count(model: Model) -> str:
        read.append(model)
        return known(model)

    monkeypatch.setattr(weights, "_digest", count)
    model = made()
    assert digest(model) == digest(Model(model.network, model.encoder, "another name")) == digest(model)
    assert len(read) == 1
    with torch.no_grad():
        next(iter(model.network.parameters())).add_(1.0)
    digest(model)
    assert len(read) == 2


ELSEWHERE = """
import sys
from arena.agents.models import load_model
from arena.agents.weights import FrozenWeights
print(FrozenWeights(load_model(sys.argv[1])).digest())
"""


@pytest.mark.slow
def test_another_process_finds_the_same_digest(tmp_path: Path) -> None:
    """An adapter's modules are a set, whose order differs between processes."""
    model = add_lora(made(), targets=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj"])
    model.save(tmp_path / "m")
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "m")]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == digest(load_model(tmp_path / "m"))
