"""Which weights answer, told by their content: what a cache of answers goes by.

A name and a version are not enough, since two runs may both have a ``debater@v1``, and a path or a hub name may hold
other files tomorrow. So the tensors themselves are digested, as they are in memory: about half a second for 135 million
parameters in float32, once for a network as long as nobody changes it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from arena.agents.models import Model

__all__ = ["FrozenWeights"]

_PLACES = {"_name_or_path", "transformers_version", "base_model_name_or_path", "inference_mode", "revision"}
"""Settings that say where weights come from, and not what they compute."""


class FrozenWeights:
    """The weights of a model as they are when this is made, for whoever relies on their staying so.

    Args:
        model: network and encoder.
        adapter: which LoRA adapter speaks, if the network has any.
    """

    def __init__(self, model: Model, adapter: str | None = "default") -> None:
        self._model = model
        self._version = _version(model.network)
        self._digest = f"{_digest_of(model)}/{adapter if hasattr(model.network, 'peft_config') else None}"

    def digest(self) -> str:
        """What identifies them: SHA-256 of all tensors, the configuration and the end tokens, and the adapter's name.

        Raises:
            ConfigError: somebody has changed them.
        """
        if _version(self._model.network) != self._version:
            raise ConfigError(
                f"the weights of '{self._model.name}' were changed or moved, and its answers are kept in a cache: "
                "leave out 'cache' for a model that is trained, or shared with agents of another dtype or device"
            )
        return self._digest


_known: WeakKeyDictionary[nn.Module, tuple[object, str]] = WeakKeyDictionary()


def _digest_of(model: Model) -> str:
    network: nn.Module = model.network
    version = _version(network)
    found = _known.get(network)
    if found is None or found[0] != version:
        found = _known[network] = version, _digest(model)
    return found[1]


def _version(network: Any) -> object:
    """Changes with every update in place and every exchange of a tensor."""
    return [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in network.parameters()]


def _digest(model: Model) -> str:
    import torch

    network: Any = model.network
    settings = [model.base.config.to_dict(), *(config.to_dict() for config in _adapters(network))]
    content = hashlib.sha256(_text([_plain(each) for each in settings]))
    content.update(_text(model.encoder.end_ids))
    for name, tensor in sorted(network.state_dict().items()):
        content.update(_text([name, str(tensor.dtype), list(tensor.shape)]))
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return content.hexdigest()


def _adapters(network: Any) -> list[Any]:
    return [config for _, config in sorted(getattr(network, "peft_config", {}).items())]


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _PLACES}


def _text(value: Any) -> bytes:
    """JSON with sorted names; sets, whose order differs from process to process, as sorted lists."""
    return json.dumps(value, sort_keys=True, default=lambda v: sorted(v) if isinstance(v, set) else str(v)).encode()
