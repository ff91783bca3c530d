"""From what a judge may know to the prompt that a language model reads.

Whatever comes from a task or a debater is made inert before a template sees it: control and format characters are gone
and line breaks are spaces, so a statement stays on the line where the template puts it and cannot forge a header,
another statement or a verdict.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from arena.judges.orders import Order, Speaking, respoken
from arena.judges.types import JudgeView, Statement
from arena.protocols.errors import ConfigError, LanguageError, suggest
from arena.protocols.inert import defuse, inert_line
from arena.protocols.templates import Template

__all__ = ["JudgePrompt", "flat", "items_of", "labels_for", "open_prompt", "shipped_prompts"]

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


def open_prompt(source: str, names: Mapping[str, str], whose: str = "the judge's prompt") -> tuple[str, Template]:
    """The text of a prompt, and the prompt as a template.

    Args:
        source: the name of a shipped template (``answer``), or a template text.
        names: what it may name, each with a few words on what that is.
        whose: prompt it is, for messages.

    Raises:
        ConfigError: no such template, a syntax error, or a name that is not among ``names``.
    """
    known = shipped_prompts()
    if source in known:
        source = (files("arena.judges") / "templates" / f"{source}.j2").read_text(encoding="utf-8")
    elif not re.search(r"[\s{]", source):
        raise ConfigError(f"'{source}' is no shipped prompt and no template text.{suggest(source, known)}")
    try:
        template = Template(source)
    except LanguageError as error:
        raise ConfigError(f"{whose}: {error}") from None
    if unknown := sorted(template.names - names.keys()):
        raise ConfigError(f"'{unknown[0]}' in {whose} is nothing that a judge knows.{suggest(unknown[0], names)}")
    return source, template


def items_of(view: JudgeView, reads: str) -> list[str]:
    """Texts of all good quotes, and the words of the task field ``reads`` where the judge's role may see it."""
    items = view.quotes()
    return [*items, *view.fields[reads]] if reads in view.fields else items


class JudgePrompt:
    """A template (`arena.protocols.templates`) with the names `NAMES`.

    Args:
        source: the name of a shipped template (``answer``), or a template text.

    Raises:
        ConfigError: no such template, a syntax error, or a name that no judge knows.
    """

    def __init__(self, source: str) -> None:
        self.source, self.template = open_prompt(source, NAMES)
        self.names = self.template.names

    def check_statements(self, statements: Speaking) -> None:
        """Refuse an order of speaking that this prompt does not show.

        Raises:
            ConfigError: neither statements nor quotes are named.
        """
        if statements != "given" and not {"statements", "items"} & set(self.names):
            raise ConfigError(f"statements={statements} is for a prompt that shows what was said: leave it out")

    def check_reads(self, reads: str) -> None:
        """Refuse the name of a task field that this prompt does not show.

        Raises:
            ConfigError: no items are named.
        """
        if "items" not in self.names:
            raise ConfigError(f"reads={reads} is for a prompt that names 'items', and this one does not: leave it out")

    def present(self, view: JudgeView, order: Sequence[int], reads: str, speakers: Order = ()) -> str:
        """The prompt with some of the answers, without what was said for the others.

        Args:
            view: all that the judge may know.
            order: task indices of the answers by presented place.
            reads: task field whose words count as quoted items where the judge's role may see it.
            speakers: see `arena.judges.orders.respoken`.

        Raises:
            ConfigError: the template fails on these values.
        """
        if speakers:
            view = dataclasses.replace(view, statements=respoken(view.statements, speakers))
        if len(order) < len(view.answers):
            said = [statement for statement in view.statements if statement.answer in (None, *order)]
            view = dataclasses.replace(view, statements=said)
        fields = {name: value for name, value in view.fields.items() if name not in ("question", "answers")}
        return self.render(view, order, items_of(view, reads) if "items" in self.names else (), fields)

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
                names[name] = {inert_line(key): flat(value) for key, value in fields.items()}
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


def flat(value: Any) -> str:
    """A task field on one inert line: a list as its words, a mapping as ``name: value; ...``."""
    if isinstance(value, Mapping):
        return "; ".join(f"{inert_line(str(key))}: {flat(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(flat, value))
    return _given(str(value))
