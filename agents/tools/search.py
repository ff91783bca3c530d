"""Text search over a corpus: Okapi BM25 (Robertson and Zaragoza 2009, as Lucene counts it) by `bm25s`.

A corpus is a folder of text files, which are cut into passages of a few paragraphs, or a JSONL file with one passage
a line: ``{"text": "...", "title": "..."}``. Its index is made once in a process and serves all tools over it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from arena.agents.tools.calls import MAX_TEXT
from arena.agents.tools.functions import FunctionTool, function_tool
from arena.protocols.errors import Fault, SourceError
from arena.protocols.programs import Outcome

__all__ = ["Index", "Passage", "load_corpus", "open_index", "search"]

_ENDINGS = (".md", ".rst", ".text", ".txt")
_LENGTH = 800
"""Characters that paragraphs of a file are joined up to; a longer paragraph is a passage of its own."""
_MOST_BYTES = 512 * 2**20
_MOST_FAULTS = 20
_WORD = r"(?u)\w+"
_CUT = " ..."


@dataclass(frozen=True, slots=True)
class Passage:
    """What is found."""

    text: str
    title: str = ""
    """Where it comes from: a file of the folder, or what the line says."""


class Index:
    """Passages by their words.

    Args:
        passages: at least one that holds a word.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        texts = [f"{passage.title} {passage.text}" for passage in self.passages]
        words = _bm25s().tokenize(texts, token_pattern=_WORD, stopwords=None, show_progress=False)
        self._scorer = _bm25s().BM25(method="lucene", k1=1.5, b=0.75)
        self._scorer.index(words, show_progress=False)

    def find(self, query: str, count: int) -> list[Passage]:
        """The best passages that share a word with ``query``; of equals the earlier one comes first."""
        import numpy as np

        words = _bm25s().tokenize([query], token_pattern=_WORD, stopwords=None, show_progress=False, return_ids=False)
        known = self._scorer.get_tokens_ids(words[0])
        if not known:
            return []
        scores = self._scorer.get_scores_from_ids(known)
        order = np.argsort(-scores, kind="stable")[:count]
        return [self.passages[number] for number in order if scores[number] > 0]


def _bm25s() -> Any:
    import bm25s  # type: ignore[import-untyped]

    return bm25s


def search(
    *,
    path: str,
    count: Annotated[int, Field(ge=1, le=50)] = 3,
    most: Annotated[int, Field(ge=1, le=1_000_000)] = MAX_TEXT,
    name: str = "search",
) -> FunctionTool:
    """Finds passages of a corpus that share words with a query.

    Args:
        path: a folder of text files, or a JSONL file; relative to where the program was started.
        count: most passages that are told.
        most: how many characters are told; long passages are cut to equal shares of it.
        name: what speakers call it.

    Raises:
        SourceError: the corpus cannot be read, or has no text.
    """
    index = open_index(path)

    def find(query: Annotated[str, Field(description="words to look for", max_length=1000)]) -> Outcome:
        found = index.find(query, count)
        if not found:
            return Outcome("Nothing was found.")
        share = most // len(found)
        return Outcome("\n".join(_told(number, passage, share) for number, passage in enumerate(found, start=1)))

    description = "Finds passages of a collection of texts that share words with a query."
    return function_tool(find, name=name, description=description, most=most)


def _told(number: int, passage: Passage, most: int) -> str:
    title = f"{passage.title}: " if passage.title else ""
    line = f"[{number}] {title}{' '.join(passage.text.split())}"
    return line if len(line) < most else f"{line[: max(0, most - len(_CUT) - 1)]}{_CUT}"


def open_index(path: str | Path) -> Index:
    """The index of a corpus; while its files stay as they are, always the same one.

    Raises:
        SourceError: the corpus cannot be read, or has no text.
    """
    root = Path(path)
    return _index(root.absolute(), root, _state(root))


@lru_cache(maxsize=16)
def _index(place: Path, root: Path, state: tuple[tuple[str, int, int], ...]) -> Index:
    return Index(load_corpus(root))


def _state(root: Path) -> tuple[tuple[str, int, int], ...]:
    """What shows that a corpus has changed: names, sizes and times of its files."""
    try:
        files = [root] if root.is_file() else _files(root)
        stats = [(str(file), file.stat()) for file in files]
    except OSError as error:
        raise _fault(root, 0, f"cannot be read: {error.strerror or error}") from None
    if sum(stat.st_size for _, stat in stats) > _MOST_BYTES:
        raise _fault(root, 0, f"the corpus is larger than {_MOST_BYTES // 2**20} MiB: its index would not fit memory")
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def load_corpus(path: str | Path) -> list[Passage]:
    """The passages of a folder, by the names of its files, or of a JSONL file.

    Raises:
        SourceError: it cannot be read, lines of it are no passages, or there is no text.
    """
    root = Path(path)
    try:
        passages = list(_of_lines(root) if root.is_file() else _of_folder(root))
    except OSError as error:
        raise _fault(root, 0, f"cannot be read: {error.strerror or error}") from None
    if not any(character.isalnum() for passage in passages for character in passage.text):
        what = f"there is no text: a corpus is a folder of files ({', '.join(_ENDINGS)}) or a JSONL file"
        raise _fault(root, 0, what)
    return passages


def _files(root: Path) -> list[Path]:
    """Text files of a folder and of those inside, by name; hidden ones are left out."""
    if not root.exists():
        raise FileNotFoundError(2, "there is no such file or folder")
    found = [file for file in root.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file()]
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(root).parts))


def _of_folder(root: Path) -> Iterator[Passage]:
    for file in _files(root):
        title = file.relative_to(root).as_posix()
        for text in _paragraphs(file.read_text(encoding="utf-8", errors="replace")):
            yield Passage(text, title)


def _paragraphs(text: str) -> Iterator[str]:
    """Pieces between blank lines, short ones joined."""
    joined = ""
    for piece in text.replace("\r\n", "\n").split("\n\n"):
        paragraph = piece.strip()
        if joined and paragraph and len(joined) + len(paragraph) > _LENGTH:
            yield joined
            joined = ""
        joined = f"{joined}\n\n{paragraph}".strip()
    if joined:
        yield joined


def _of_lines(file: Path) -> Iterator[Passage]:
    faults: list[Fault] = []
    for number, data in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not data.strip() or len(faults) >= _MOST_FAULTS:
            continue
        try:
            line = json.loads(data)
        except (ValueError, RecursionError) as error:
            faults.append(Fault(str(file), number, 1, "", f"not a JSON object: {error}"))
            continue
        if not isinstance(line, dict) or not isinstance(line.get("text"), str):
            faults.append(Fault(str(file), number, 1, "text", 'a passage has a text: write {"text": "..."}'))
            continue
        yield Passage(line["text"], str(line.get("title") or ""))
    if faults:
        raise SourceError(faults)


def _fault(path: Path, line: int, what: str) -> SourceError:
    return SourceError([Fault(str(path), line, 0, "", what)])
