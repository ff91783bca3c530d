"""Finding passages of a task field by words.

A field is a few dozen sentences, so a passage is scored by the words that it shares with the query, rare ones
counting more: sum of log(1 + N / n(word)) over shared words, with N passages of which n hold the word. Ranking by
length and frequency is for corpora of documents: `arena.agents.tools.search`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.agents.tools.calls import MAX_TEXT, failed
from arena.agents.tools.functions import FunctionTool, function_tool
from arena.protocols.programs import Call, Outcome

__all__ = ["lookup", "passages", "rank"]

_WORD = re.compile(r"\w+")
# A sentence ends with a mark and a blank; a line break always ends one.
_END = re.compile(r"(?<=[.!?])[ \t]+|[\r\n]+")


def lookup(
    *,
    field: str,
    count: Annotated[int, Field(ge=1, le=50)] = 3,
    most: Annotated[int, Field(ge=1, le=1_000_000)] = MAX_TEXT,
    name: str = "lookup",
) -> FunctionTool:
    """Finds sentences of a task field (or its items, if it is a list) that share words with a query.

    Args:
        field: the task field; the toolbox's role must see it.
        count: most passages that are told.
        most: how many characters are told.
        name: what speakers call it.
    """

    def look(query: Annotated[str, Field(description="words to look for", max_length=1000)], call: Call) -> Outcome:
        source = call.task.get(field)
        if not source:
            return failed("There is nothing to look up.")
        found = rank(query, passages(source))[:count]
        if not found:
            return Outcome("Nothing was found.")
        return Outcome("\n".join(f"[{number}] {text}" for number, text in enumerate(found, start=1)))

    description = "Finds passages of the source that share words with a query."
    return function_tool(look, name=name, description=description, reads=[field], most=most)


def passages(source: str | Sequence[object]) -> list[str]:
    """The sentences of a text, or the items of a list."""
    items = _END.split(source) if isinstance(source, str) else map(str, source)
    return [text for item in items if (text := item.strip())]


def rank(query: str, texts: Sequence[str]) -> list[str]:
    """The texts that share a word with ``query``, best first; of equals the earlier."""
    words_of = [_words(text) for text in texts]
    holding = Counter(word for words in words_of for word in words)
    asked = _words(query)
    # Summed in the order of the alphabet: the order of a set of texts differs from process to process.
    scores = [sum(math.log(1 + len(texts) / holding[w]) for w in sorted(asked & words)) for words in words_of]
    order = sorted(range(len(texts)), key=lambda index: -scores[index])
    return [texts[index] for index in order if scores[index] > 0]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
