"""Protocol files that name each other: where they are, what ``extends`` makes of them, their texts for a rebuild."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from arena.protocols.composer import KeyPath, Mark, SourceNode, spell
from arena.protocols.documents import Document, parse_document, read_document
from arena.protocols.errors import Fault, SourceError, UnknownNameError, suggest

__all__ = ["LIBRARY", "Sources", "find_protocol"]

LIBRARY = Path(__file__).parent.parent / "library"
MAX_CHAIN = 8


def find_protocol(name_or_path: str | Path, beside: str = "") -> Path:
    """The file of a protocol: of the library, or at a path (relative to the folder of the file ``beside``).

    Raises:
        UnknownNameError: no protocol of that name.
    """
    path = Path(name_or_path)
    if isinstance(name_or_path, Path) or path.suffix or len(path.parts) != 1:
        return path if not beside else Path(os.path.normpath(Path(beside).parent / path))
    inside = LIBRARY / f"{name_or_path}.yaml"
    if _is_file(inside):
        return inside
    if not beside and _is_file(path):
        return path
    names = [item.stem for item in LIBRARY.glob("*.yaml")]
    raise UnknownNameError(f"there is no protocol '{name_or_path}'.{suggest(str(name_or_path), names)}")


class Sources:
    """The files of one compilation. Each is read once; the texts are kept, so that a protocol that was pickled is the
    same when the files have changed since.

    Args:
        texts: what was read before: name as written -> (file, text); nothing else is read then.
    """

    def __init__(self, texts: Mapping[str, tuple[str, str]] | None = None) -> None:
        self.texts: dict[str, tuple[str, str]] = dict(texts or {})
        self._frozen = texts is not None
        self._parsed: dict[str, Document] = {}
        self._whole: dict[str, Document] = {}

    def read(self, name: str, document: Document, path: KeyPath) -> Document:
        """The protocol that the value at ``path`` of ``document`` names, with what it extends.

        Raises:
            SourceError: there is none, or it cannot be read.
        """
        raw = self._raw(name, document, path)
        if raw.file not in self._whole:
            self._whole[raw.file] = self.extend(raw)
        return self._whole[raw.file]

    def _raw(self, name: str, document: Document, path: KeyPath) -> Document:
        mark = document.fault(path, "")
        key = f"{mark.file}\n{name}"
        if key in self._parsed:
            return self._parsed[key]
        if key not in self.texts:
            if self._frozen:
                raise SourceError([document.fault(path, f"'{name}' was not kept with the protocol: load it anew")])
            try:
                file = find_protocol(name, mark.file)
            except (UnknownNameError, ValueError) as error:
                raise SourceError([document.fault(path, f"{error} For a file, write a path with its ending")]) from None
            if not _is_file(file):
                raise SourceError([document.fault(path, f"there is no file '{file}'")])
            self.texts[key] = (str(file), read_document(file).text)
        file_name, text = self.texts[key]
        self._parsed[key] = parse_document(text, file_name)
        return self._parsed[key]

    def extend(self, document: Document) -> Document:
        """The document with what it ``extends`` merged in: mappings key by key, other values replaced, empty ones gone.

        Raises:
            SourceError: a file of the chain has faults, or the chain has no end.
        """
        chain = [document]
        while isinstance(chain[-1].data, dict) and isinstance(name := chain[-1].data.get("extends"), str):
            parent = self._raw(name, chain[-1], ("extends",))
            files = [each.file for each in chain]
            if parent.file in files:
                walk = " -> ".join([*files[files.index(parent.file) :], parent.file])
                raise SourceError([chain[-1].fault(("extends",), f"the protocols extend each other: {walk}")])
            if len(chain) > MAX_CHAIN:
                what = f"the chain of 'extends' is longer than {MAX_CHAIN} files"
                raise SourceError([chain[-1].fault(("extends",), what)])
            chain.append(parent)
        if len(chain) == 1:
            return document
        faults: list[Fault] = []
        base = root = chain[-1].root
        for child in reversed(chain[:-1]):
            if not isinstance(root.value, dict):
                break  # a file without keys; its faults are told as those of the whole
            if not isinstance(child.data.get("name"), str):
                faults.append(child.fault(("name",), "a protocol that extends another needs a 'name' of its own"))
            base, root = root, _merge(root, child.root, child, (), faults)
        if faults:
            raise SourceError(faults)
        return Document(document.file, document.text, root, base)


def _is_file(path: Path) -> bool:
    """A pipe or a device that a file names would be waited for."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _merge(base: SourceNode, child: SourceNode, document: Document, path: KeyPath, faults: list[Fault]) -> SourceNode:
    """Neither node is changed: aliases share them."""
    values: dict[str, SourceNode] = dict(base.value)
    keys: dict[str, Mark] = dict(base.keys)
    for key, value in child.value.items():
        here = (*path, key)
        if value.value is None:
            if key not in values:
                what = f"there is no '{spell(here)}' in what is extended that could be taken away"
                faults.append(document.fault(here, what, key=True))
            values.pop(key, None)
            continue
        inside = values.get(key)
        if inside is not None and isinstance(inside.value, dict) and isinstance(value.value, dict):
            value = _merge(inside, value, document, here, faults)  # noqa: PLW2901
        values[key] = value
        keys[key] = child.keys[key]
    return SourceNode(child.source, child.line, child.column, values, keys)
