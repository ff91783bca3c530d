"""What a reward model scores: one answer at a time, as a prompt and a reply.

The reply is what was said for the answer. It is a turn of its own in the model's chat format, so it needs no frame and
keeps its lines; several statements follow each other, and the later lines of each are moved right, so that none can
pass for a statement of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from arena.judges.prompts import flat, open_prompt
from arena.judges.types import JudgeView, Statement
from arena.protocols.errors import ConfigError
from arena.protocols.inert import defuse, indent, inert, inert_line

__all__ = ["REPLY_NAMES", "Of", "Reply", "RewardPrompt", "find_replies", "replies_of"]

Of = Literal["all", "last", "answer"]
"""What counts as the reply: all statements that argue for the answer, the last of them, or the answer's own text."""

NAMES = {
    "question": "the question",
    "answer": "the answer that the reply argues for; empty where the reply is the answer itself",
    "fields": "the other task fields that the judge's role may see, by name",
}
"""What a template may name."""


REPLY_NAMES = {
    "question": "the question",
    "answer": "the answer that the reply argues for, or empty",
    "reply": "the lines of the reply",
    "fields": "the other task fields that the judge's role may see, by name",
}
"""What a template that shows the reply within a frame may name, beside names of its own (`Reply.shown`)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One thing to score. Equal replies get equal scores."""

    question: str
    texts: tuple[str, ...]
    """What was said, in order."""
    answer: str = ""
    """What it argues for."""
    fields: tuple[tuple[str, str], ...] = ()
    """The other task fields, flat."""

    @property
    def text(self) -> str:
        """The reply as the model reads it."""
        return self.texts[0] if len(self.texts) == 1 else "\n".join(map(indent, self.texts))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of all texts that hold more than white space."""
        return tuple(line.strip() for text in self.texts for line in text.split("\n") if line.strip())

    def shown(self) -> dict[str, Any]:
        """Values of `REPLY_NAMES`: printable, each a line or a list of lines, without forged tags."""
        return {
            "question": defuse(inert_line(self.question)),
            "answer": self.answer,
            "reply": [inert_line(line) for line in self.lines] or [""],
            "fields": dict(self.fields),
        }

    def upto(self, texts: tuple[str, ...]) -> Reply:
        """The same with other texts: a prefix of it."""
        return replace(self, texts=texts)


class RewardPrompt:
    """A template (`arena.protocols.templates`) with the names `NAMES`.

    Args:
        source: the name of a shipped template (``reward``), or a template text.

    Raises:
        ConfigError: no such template, a syntax error, or a name that it cannot know.
    """

    def __init__(self, source: str) -> None:
        self.source, self.template = open_prompt(source, NAMES, "the prompt of the reward model")

    def render(self, reply: Reply) -> str:
        """The prompt of a reply.

        Raises:
            ConfigError: the template fails on these values.
        """
        values = {"question": reply.question, "answer": reply.answer, "fields": dict(reply.fields)}
        return self.template({name: values[name] for name in self.template.names}).strip()


def find_replies(view: JudgeView, of: Of) -> list[Reply] | str:
    """What `replies_of` gives, or the reason why there is no reply to score."""
    try:
        return replies_of(view, of)
    except ConfigError as error:
        return str(error)


def replies_of(view: JudgeView, of: Of, *, unargued: bool | None = None) -> list[Reply]:
    """One reply for each answer in task order; where there are no answers, the last statement alone.

    Args:
        view: all that the judge may know.
        of: what counts as the reply.
        unargued: an answer that nobody argued has an empty reply; None: the judge has no such option.

    Raises:
        ConfigError: there is no reply to score; the message is the reason of an undecidable verdict.
    """
    fields = tuple(
        (inert_line(name), flat(value)) for name, value in view.fields.items() if name not in ("question", "answers")
    )
    bare = Reply(inert(view.question), (), "", fields)
    count = view.compared
    if not count:
        if not view.statements:
            raise ConfigError("nothing was said")
        return [bare.upto((_said(view.statements[-1]),))]
    if of == "answer":
        if len(view.answers) < count:
            raise ConfigError("the judge's role does not see the answers, which are what is to be scored")
        return [bare.upto((_clean(defuse(answer)),)) for answer in view.answers]
    return [_argued(view, index, of, bare, unargued=unargued) for index in range(count)]


def _argued(view: JudgeView, index: int, of: Of, bare: Reply, *, unargued: bool | None) -> Reply:
    texts = tuple(_said(statement) for statement in view.statements if statement.answer == index)
    answer = defuse(inert_line(view.answers[index])) if view.answers else ""
    if not texts and not unargued:
        named = f" ({answer[:40]!r})" if answer else ""
        way_out = "" if unargued is None else "; unargued=true scores it by an empty reply"
        raise ConfigError(f"nobody argued for answer {index}{named}{way_out}")
    return replace(bare, texts=(texts[-1:] if of == "last" else texts) or ("",), answer=answer)


def _said(statement: Statement) -> str:
    """What was said; where the judge hears quotes only, the good ones."""
    if statement.text:
        return _clean(statement.text)
    return " ".join(inert_line(quote.text) for quote in statement.quotes if quote.good)


def _clean(text: str) -> str:
    """Without control and format characters; lines and their indentation stay. The engine broke forged tags before."""
    lines = text.splitlines()
    return "\n".join(line if line.isprintable() else inert_line(line) for line in lines)
