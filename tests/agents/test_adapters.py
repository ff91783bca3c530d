"""Published adapters: names that no other weights have, files that stay as long as somebody holds them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file

from arena.agents.adapters import AdapterShelf
from arena.agents.base_models import base_place
from arena.agents.models import Model, add_lora, load_model, tiny
from arena.protocols.errors import ConfigError, StoreError


def adapted(seed: int = 0) -> Model:
    model = add_lora(tiny("a b c", hidden=16, heads=2), r=2, seed=seed)
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            if "lora_B" in name:
                weight.normal_(generator=torch.Generator().manual_seed(seed))
    return model


def change(model: Model) -> None:
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            if "lora_B" in name:
                weight.add_(1.0)


def test_other_weights_get_another_name_and_leave_the_files_of_the_first_alone() -> None:
    shelf, model = AdapterShelf(), adapted()
    first = shelf.publish(model, "default", "p@v1")
    held = load_file(first.folder / "adapter_model.safetensors")
    change(model)
    second = shelf.publish(model, "default", "p@v1")  # a mistake in the version
    assert first.name != second.name
    assert (first.number, second.number) == (1, 2)
    assert first.name.startswith("p@v1-")
    again = load_file(first.folder / "adapter_model.safetensors")
    assert all(torch.equal(again[name], weight) for name, weight in held.items())


def test_the_same_weights_are_written_once() -> None:
    shelf, model = AdapterShelf(), adapted()
    assert shelf.publish(model, "default", "p@v1") is shelf.publish(model, "default", "p@v1")
    assert shelf.publish(model, "default", "p@v2").name.startswith("p@v2-")


def test_files_go_when_nobody_holds_the_adapter() -> None:
    shelf, model = AdapterShelf(), adapted()
    kept = shelf.publish(model, "default", "org/p@v1")
    folder = kept.folder
    assert folder.parent == shelf.folder
    del kept
    gc.collect()
    assert not folder.exists()
    assert list(shelf.folder.iterdir()) == []


def test_the_folder_of_a_shelf_is_gone_with_it_unless_it_is_the_users(tmp_path: Path) -> None:
    own, given = AdapterShelf(), AdapterShelf(tmp_path)
    folder = own.folder
    del own, given
    gc.collect()
    assert not folder.exists()
    assert tmp_path.exists()


def test_a_named_adapter_is_published_alone() -> None:
    model = add_lora(adapted(), r=4, adapter="other")
    found = AdapterShelf().publish(model, "other", "p@v1")
    assert found.rank == 4
    assert sorted(file.name for file in found.folder.iterdir() if file.suffix in {".json", ".safetensors"}) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


def test_what_engines_do_not_load_is_refused() -> None:
    model = adapted()
    network: Any = model.network
    network.add_adapter("dora", LoraConfig(r=2, target_modules=["q_proj"], use_dora=True))
    with pytest.raises(ConfigError, match="adapter 'dora' has use_dora=True, which only the backend 'hf'"):
        AdapterShelf().publish(model, "dora", "p@v1")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        AdapterShelf(tmp_path / "missing").publish(adapted(), "default", "p@v1")


def test_the_base_of_adapters_is_the_model_without_them() -> None:
    plain = tiny("a b c", hidden=16, heads=2)
    place = base_place(plain)
    assert base_place(adapted()) == place  # the same base under two adapters, and once more without any
    assert base_place(tiny("a b c", hidden=16, heads=2, seed=1)) != place
    back = load_model(place).network.state_dict()
    assert all(torch.equal(back[name], weight) for name, weight in plain.network.state_dict().items())


def test_a_source_describes_a_frozen_base_and_no_trained_one() -> None:
    plain = tiny("a b c", hidden=16, heads=2)
    trained = Model(plain.network, plain.encoder, "t", source="org/base")
    assert base_place(trained) != "org/base"
    frozen = add_lora(Model(plain.network, plain.encoder, "t", source="org/base"), r=2)
    assert base_place(frozen) == "org/base"
