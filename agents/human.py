"""A person at the terminal fills a role.

The person sees what a model would see: the role's instructions, the turns that it may read and what is asked now. A
turn ends with an empty line; where one of several texts is to be chosen, one line with its number or its text is
enough. End of input (Ctrl-D) gives the turn up: it is recorded as refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from arena.agents.types import Act, Ask
from arena.protocols.records import TurnStatus

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["HumanAgent", "Person", "human", "visible"]

# What could steer a terminal or hide text: controls but tab and line feed, bidirectional and invisible marks,
# surrogates.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_TITLES = {"opening": "Your instructions", "heard": "Said", "prompt": "Now", "cue": "Your turn begins with"}


class Person:
    """Somebody at the terminal, who is shown texts and types lines.

    Args:
        read: gives the next line that was typed, without its end, and raises EOFError if there is none; it is given
            what stands before the line.
        console: where things are shown; standard error if None, so that what a program prints can be kept apart.
    """

    def __init__(self, read: Callable[[str], str] | None = None, console: Console | None = None) -> None:
        from rich.console import Console as Terminal

        self._console = console or Terminal(stderr=True, highlight=False)
        self._read = read or self._console.input

    def show(self, text: str, style: str = "") -> None:
        """Show a text with nothing in it that steers the terminal."""
        self._console.print(visible(text), style=style or None, markup=False, highlight=False, emoji=False)

    def rule(self, title: str) -> None:
        """Draw a line with a title."""
        self._console.rule(visible(title))

    def line(self, before: str) -> str:
        """One line, without blanks at its ends."""
        return _storable(self._read(before)).strip()

    def lines(self, *, optional: bool = False) -> str:
        """Lines up to an empty one or the end of input; empty ones before the first do not end them unless
        ``optional``."""
        lines: list[str] = []
        while True:
            try:
                line = self._read("> ")
            except EOFError:
                if not lines:
                    raise
                break  # Ctrl-D after some lines ends them
            if not line.strip() and (lines or optional):
                break
            if line.strip():
                lines.append(line)
        return _storable("\n".join(lines))

    def choose(self, options: Sequence[str], *, optional: bool = False) -> int | None:
        """Place of one of the texts, or None for an empty line if it is ``optional``; asked again until it is one."""
        for number, option in enumerate(options, start=1):
            self.show(f"  {number}. {option}")
        while True:
            typed = self.line("number or text> ")
            if typed in options:
                return options.index(typed)
            if optional and not typed:
                return None
            if typed.isdecimal() and 1 <= int(typed) <= len(options):
                return int(typed) - 1
            self.show(f"Type a number from 1 to {len(options)}, or one of the texts.", "dim")


class HumanAgent:
    """Asks a person, one turn after the other.

    Args:
        name: key in lineups and ratings.
        read: see `Person`.
        console: see `Person`.
    """

    interactive = True
    """Episodes are best played one after the other."""

    def __init__(
        self, name: str = "human", *, read: Callable[[str], str] | None = None, console: Console | None = None
    ) -> None:
        self.name = name
        self._person = Person(read, console)
        self._episode = ""

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One turn for each ask; see `arena.agents.types.Agent`."""
        return [self._act(ask) for ask in asks]

    def _act(self, ask: Ask) -> Act:
        person = self._person
        if ask.episode != self._episode:
            person.rule(f"episode {ask.episode}")
            self._episode = ask.episode
        person.show(f"You are {ask.role}.", "bold")
        for message in ask.new:
            person.show(f"{_TITLES[message.kind]}:", "dim")
            person.show(message.text)
        try:
            return Act(self._answer(ask))
        except EOFError:
            return Act("", TurnStatus.CANCELLED, error=f"{self.name} has left: the input has ended")

    def _answer(self, ask: Ask) -> str:
        person, rule = self._person, ask.output
        for line in _bounds(ask):
            person.show(line, "dim")
        if rule is None or rule.kind != "choice":
            person.show("End with an empty line.", "dim")
            return person.lines()
        if not rule.tag:
            return self._chosen(ask)
        person.show("Say why, and end with an empty line.", "dim")
        said = person.lines()
        chosen = self._chosen(ask, optional=rule.optional)
        return f"{said}\n<{rule.tag}>{chosen}</{rule.tag}>" if chosen else said

    def _chosen(self, ask: Ask, *, optional: bool = False) -> str:
        place = self._person.choose(ask.options, optional=optional)
        return "" if place is None else ask.options[place]


def human(*, name: str = "human") -> HumanAgent:
    """A person at the terminal."""
    return HumanAgent(name)


def visible(text: str) -> str:
    """``text`` without what could steer a terminal: each such character is shown as U+FFFD."""
    return _STEERING.sub("\ufffd", text)


def _storable(text: str) -> str:
    """Bytes that are no text come from a terminal as halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _bounds(ask: Ask) -> list[str]:
    """What the turn must keep to, one line each."""
    lines = [f"At most {ask.max_words} words."] if ask.max_words is not None else []
    rule = ask.output
    if rule and rule.kind != "choice":
        wanted = {
            "json": "Write a JSON object.",
            "regex": f"Write {', '.join(rule.fields)} so that the whole fits the pattern {rule.pattern} .",
            "call": f'Call one of {", ".join(rule.tools)}: {{"tool": NAME, "arguments": {{...}}}}.',
        }
        between = f" Put it between <{rule.place}> and </{rule.place}>." if rule.place else ""
        lines.append(wanted[rule.kind] + between)
    if ask.quote_field and ask.task.fields.get(ask.quote_field):
        lines.append(f"Quotes of the {ask.quote_field} are checked.")
    return lines
