"""Hidden thinking that an agent has left in what it says: ``<think>...</think>``, wherever it stands."""

from __future__ import annotations

import re

__all__ = ["part_thinking"]

_TAG = re.compile(r"<\s{0,9}(/?)\s{0,9}think(?:\s[^<>]{0,200})?>", re.IGNORECASE)


def part_thinking(text: str) -> tuple[str, str]:
    """Visible text, and what stands in blocks of thinking.

    Blocks may be several, nested, and in any case; one that is not closed lasts to the end. Where there is none, the
    text is left as it is.
    """
    if "<" not in text or not (tags := list(_TAG.finditer(text))):
        return text, ""
    visible: list[str] = []
    hidden: list[str] = []
    depth = since = 0
    for tag in tags:
        if tag[1] and not depth:
            continue  # closes nothing
        (hidden if depth else visible).append(text[since : tag.start()])
        since = tag.end()
        depth += -1 if tag[1] else 1
    if not hidden and not since:
        return text, ""
    (hidden if depth else visible).append(text[since:])
    thoughts = (thought.strip() for thought in hidden)
    return "".join(visible).strip(), "\n".join(thought for thought in thoughts if thought)
