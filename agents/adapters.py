"""LoRA adapters of a training model, written for engines that load them from files.

An adapter is published under a name that no other weights ever have: the policy's id and a digest of the files,
``debater@v17-3f9c2a1b40de``. So nothing is overwritten, and whatever an engine caches by name (keys and values of
prefixes above all) can never be used for other weights.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena.agents.models import Model
from arena.agents.quiet import quiet
from arena.protocols.errors import ConfigError
from arena.protocols.files import writing

__all__ = ["AdapterShelf", "PublishedAdapter"]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class PublishedAdapter:
    """One version of an adapter. Its files are there as long as somebody holds this object."""

    name: str
    number: int
    """Counts from 1 in its shelf, never used twice."""
    folder: Path
    """Holds ``adapter_config.json`` and ``adapter_model.safetensors``; no other process has a folder of its name."""
    rank: int
    shelf: AdapterShelf = field(repr=False)
    """Where it stands; its folder has to outlive it."""


class AdapterShelf:
    """A folder of published adapters.

    Args:
        folder: where they are written; a temporary one, gone with the process, if None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="arena-adapters-")) if folder is None else folder
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._held: weakref.WeakValueDictionary[str, PublishedAdapter] = weakref.WeakValueDictionary()
        self._count = 0
        self._lock = threading.Lock()

    def publish(self, model: Model, adapter: str, policy: str) -> PublishedAdapter:
        """Write an adapter's present weights; weights that are on the shelf under this policy are not written again.

        Raises:
            ConfigError: the adapter is of a kind that engines do not load.
            StoreError: the files cannot be written.
        """
        network: Any = model.network
        config = network.peft_config[adapter]
        _check_kind(config, adapter)
        with self._lock, writing(self.folder), quiet():
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self.folder))
            try:
                network.save_pretrained(draft, selected_adapters=[adapter], save_embedding_layers=False)
                files = draft if adapter == "default" else draft / adapter
                name = f"{policy}-{_digest(files)}"
                found = self._held.get(name)
                # Other processes may write the same one beside it.
                home = self.folder / f"{name.replace('/', '_')}{draft.name.removeprefix('.draft')}"
                return self._keep(files.rename(home), name, config.r) if found is None else found
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def _keep(self, folder: Path, name: str, rank: int) -> PublishedAdapter:
        folder.chmod(0o755)  # a server may run under another account
        self._count += 1
        kept = PublishedAdapter(name, self._count, folder, rank, self)
        weakref.finalize(kept, shutil.rmtree, folder, ignore_errors=True)
        self._held[name] = kept
        return kept


def _check_kind(config: Any, adapter: str) -> None:
    for setting, plain in (("use_dora", False), ("modules_to_save", None), ("bias", "none")):
        if (value := getattr(config, setting, plain) or plain) != plain:
            raise ConfigError(
                f"adapter '{adapter}' has {setting}={value!r}, which only the backend 'hf' can sample from"
            )


def _digest(folder: Path) -> str:
    content = hashlib.sha256()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        content.update((folder / name).read_bytes())
    return content.hexdigest()[:12]
