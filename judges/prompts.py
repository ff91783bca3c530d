"""From what a judge may know to the prompt that a language model reads.

Whatever comes from a task or a debater is made inert before a template sees it: control and format characters are gone
and line breaks are spaces, so a statement stays on the line where the template puts it and cannot forge a header,
another statement or a verdict.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from arena.judges.types import JudgeView, Statement
from arena.protocols.errors import ConfigError, LanguageError, suggest
from arena.protocols.inert import defuse, inert_line
from arena.protocols.templates import Template

__all__ = ["JudgePrompt", "labels_for", "shipped_prompts"]

NAMES = {
    "question": "the question",
    "answers": "the answers, in the order of this prompt",
    "labels": "A, B, ...: one letter for each answer",
    "items": "texts of all good quotes, or the words of the evidence where the judge's role may see it",
    "statements": "what was said, each with .role, .label (letter of the argued answer, or empty), .text and .quotes",
    "fields": "the other task fields that the judge's role may see, by name",
}
"""What a template may name."""


@functools.cache
def labels_for(count: int) -> tuple[str, ...]:
    """``A``, ``B``, ... for up to 26 answers.

    Raises:
        ConfigError: there are more.
    """
    if count > 26:
        raise ConfigError(f"{count} answers cannot be labelled with letters: use at most 26")
    return tuple(chr(ord("A") + index) for index in range(count))


def shipped_prompts() -> list[str]:
    """Names of the templates in ``judges/templates``."""
    folder = files("arena.judges") / "templates"
    return sorted(entry.name.removesuffix(".j2") for entry in folder.iterdir() if entry.name.endswith(".j2"))


class JudgePrompt:
    """A template (`arena.protocols.templates`) with the names `NAMES`.

    Args:
        source: the name of a shipped template (``answer``), or a template text.

    Raises:
        ConfigError: no such template, a syntax error, or a name that no judge knows.
    """

    def __init__(self, source: str) -> None:
        known = shipped_prompts()
        if source in known:
            source = (files("arena.judges") / "templates" / f"{source}.j2").read_text(encoding="utf-8")
        elif not re.search(r"[\s{]", source):
            raise ConfigError(f"'{source}' is no shipped prompt and no template text.{suggest(source, known)}")
        try:
            self.template = Template(source)
        except LanguageError as error:
            raise ConfigError(f"the judge's prompt: {error}") from None
        self.source = source
        self.names = self.template.names
        if unknown := sorted(self.names - NAMES.keys()):
            raise ConfigError(
                f"'{unknown[0]}' in the judge's prompt is nothing that a judge knows.{suggest(unknown[0], NAMES)}"
            )

    def render(self, view: JudgeView, order: Sequence[int], items: Sequence[str], fields: Mapping[str, Any]) -> str:
        """The prompt with the answers in ``order`` (task indices by presented place).

        Raises:
            ConfigError: the template fails on these values.
        """
        names: dict[str, Any] = {}
        for name in self.names:
            if name == "items":
                names[name] = [inert_line(item) for item in items]
            elif name == "answers":
                names[name] = [_given(view.answers[index]) for index in order]
            elif name == "labels":
                names[name] = labels_for(len(order))
            elif name == "question":
                names[name] = _given(view.question)
            elif name == "statements":
                place = dict(zip(order, labels_for(len(order)), strict=True))
                names[name] = [_said(statement, place) for statement in view.statements]
            else:
                names[name] = {inert_line(key): _flat(value) for key, value in fields.items()}
        return self.template(names)


def _given(text: str) -> str:
    """A text of the task: it cannot hold what was checked, since only the engine marks that."""
    return defuse(inert_line(text))


def _said(statement: Statement, place: Mapping[int, str]) -> dict[str, Any]:
    return {
        "role": inert_line(statement.role),
        "label": "" if statement.answer is None else place.get(statement.answer, ""),
        "text": inert_line(statement.text),
        "quotes": [inert_line(quote.text) for quote in statement.quotes if quote.good],
    }


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{inert_line(str(key))}: {_flat(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_flat(item) for item in value)
    return _given(str(value))
