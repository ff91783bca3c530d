"""From a YAML file to a `Protocol`, with every fault of the file in one report.

A part with a fault is set aside and the rest is still checked, so that one run shows everything there is to repair. The
work is done in `arena.protocols.compiler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from arena.protocols.compiler.build import build, rebuild
from arena.protocols.compiler.sources import LIBRARY, Sources, find_protocol
from arena.protocols.documents import Document, read_document
from arena.protocols.graph import Protocol

__all__ = ["compile_document", "library", "load_protocol", "restore_protocol", "sources_of"]


def library() -> dict[str, str]:
    """The protocols that come with the package: name -> summary."""
    return {path.stem: str(read_document(path).get(("summary",)) or "") for path in sorted(LIBRARY.glob("*.yaml"))}


def load_protocol(name_or_path: str | Path, params: Mapping[str, Any] | None = None) -> Protocol:
    """Read, check and compile a protocol.

    Args:
        name_or_path: a name from `library`, or a path to a YAML file.
        params: values in place of the defaults of the file's ``params``; texts are read as YAML scalars
            where the default is no text.

    Raises:
        SourceError: the file, or one that it extends or uses, has faults; all are listed with their places.
        ConfigError: ``params`` names no param of the protocol or gives it a value of another type.
        UnknownNameError: no protocol of that name.
    """
    return compile_document(read_document(find_protocol(name_or_path)), params)


def compile_document(document: Document, params: Mapping[str, Any] | None = None) -> Protocol:
    """Compile a parsed protocol file; see `load_protocol`."""
    return build(document, dict(params or {}), Sources())


def sources_of(protocol: Protocol) -> dict[str, Any]:
    """The texts of all files that a protocol was compiled from, and its params, for JSON; see `restore_protocol`."""
    file, text, texts, params = cast("partial[Protocol]", protocol.rebuild).args
    return {"file": file, "text": text, "texts": texts, "params": params}


def restore_protocol(sources: Mapping[str, Any]) -> Protocol:
    """Compile what `sources_of` gave, wherever the files are now and whatever they hold.

    Raises:
        SourceError: the language has changed since.
    """
    texts = {name: (file, text) for name, (file, text) in sources["texts"].items()}
    return rebuild(sources["file"], sources["text"], texts, sources["params"])
