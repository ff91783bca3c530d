"""Where an engine finds the base weights of a model that is in this process."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from arena.agents.models import Model, save_base
from arena.agents.quiet import quiet
from arena.protocols.files import writing

__all__ = ["base_place"]


def base_place(model: Model) -> str:
    """Hub name or folder of a model's base.

    A base under adapters is frozen, so that its source still describes it; everything else is written into a
    temporary folder as it is now, once for each content, which is gone with the process.

    Raises:
        StoreError: there is no room for it.
    """
    adapted = hasattr(model.network, "peft_config")
    if adapted and model.source is not None:
        return _resolved(model.source)
    base: Any = model.base
    home = _home()
    with writing(home), quiet():
        draft = Path(tempfile.mkdtemp(dir=home))
        if adapted:
            save_base(base, draft)
        else:
            base.save_pretrained(draft)
        # An engine of tokens needs no tokenizer, `vllm serve` does.
        model.encoder.tokenizer.save_pretrained(draft)
        folder = home / _digest(draft)
        if folder.is_dir():
            shutil.rmtree(draft)
        else:
            draft.rename(folder)
    return str(folder)


@functools.cache
def _home() -> Path:
    home = tempfile.mkdtemp(prefix="arena-base-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return Path(home)


def _resolved(source: str) -> str:
    if source == "smollm2":
        from arena.agents.smollm2 import smollm2_folder

        return str(smollm2_folder())
    return source


def _digest(folder: Path) -> str:
    content = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        content.update(file.name.encode())
        with open(file, "rb") as stream:
            content.update(hashlib.file_digest(stream, "sha256").digest())
    return content.hexdigest()
