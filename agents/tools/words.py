"""Tools and checks that look at a text word by word, place by place: for drafts that are mended one word at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from arena.agents.tools.calls import failed, not_checked
from arena.agents.tools.checks import FunctionCheck, finding, subject, unread
from arena.agents.tools.functions import FunctionTool, function_tool
from arena.protocols.programs import Call, Outcome

__all__ = ["aligned", "misplaced", "substitute"]


def substitute() -> FunctionTool:
    """Puts a word in the place of another: ``3 1 4``, place 2, word 9 -> ``3 9 4``.

    A text without such a place is a failed call, and stays as it is.
    """
    return function_tool(_substitute, name="substitute", description="Puts a word in the place of another one.")


def _substitute(
    text: Annotated[str, Field(description="words with blanks between them")],
    place: Annotated[int, Field(description="which word, from 1")],
    word: Annotated[str, Field(description="what stands there instead")],
) -> str | Outcome:
    words = text.split()
    if not 1 <= place <= len(words):
        return failed(text, f"there is no word {place} among {len(words)}")
    return " ".join([*words[: place - 1], word, *words[place:]])


def aligned(*, field: str, of: str = "") -> FunctionCheck:
    """Passes the words of a task field in their order; the score is the share of places with the right word.

    Places are counted from the beginning, and those of the longer text are all: a word too many or too few costs.

    Args:
        field: task field that holds what is right: a text, or a list of words.
        of: which value of the turn is compared; its text if empty.
    """

    def check(call: Call) -> Outcome:
        right, said = _words(call.task.get(field)), _words(subject(call, of))
        if right is None:
            return not_checked(f"the task has no words '{field}'")
        if said is None:
            return unread("it needs words")
        equal = sum(one == other for one, other in zip(right, said, strict=False))
        return finding(right == said, score=equal / max(len(right), len(said), 1))

    return FunctionCheck("aligned", check, (field,))


def misplaced(*, field: str, text: str, of: str = "index") -> FunctionCheck:
    """Passes who names a place at which a text departs from a task field, word by word.

    Args:
        field: task field that holds what is right: a text, or a list of words.
        text: field that holds the text in question, such as one that the node makes of a turn (``fields:``).
        of: which value of the turn is the place, counted from 0, as a choice gives its ``index``.
    """

    def check(call: Call) -> Outcome:
        right, found = _words(call.task.get(field)), _words(call.task.get(text))
        if right is None or found is None:
            return not_checked(f"the task has no words '{field if right is None else text}'")
        place = subject(call, of)
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < max(len(right), len(found)):
            return unread("it needs a place in the text")
        return finding(right[place : place + 1] != found[place : place + 1])

    return FunctionCheck("misplaced", check, (field, text))


def _words(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return value.split()
    return [str(item) for item in value] if isinstance(value, Sequence) else None
