"""A person at the terminal, played by a list of typed lines."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console

from arena.agents import AGENTS
from arena.agents.human import HumanAgent
from arena.agents.types import Act, Ask, Context, Message
from arena.protocols.outputs import OutputRule
from arena.protocols.records import Task, TurnStatus


def typing(lines: Iterable[str]) -> Callable[[str], str]:
    left = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return read


def ask(*new: Message, episode: str = "e", **more: Any) -> Ask:
    return Ask(episode, "n", "pro", 0, 0, Context(), new, None, None, Task("t", {"passage": "p"}), (), **more)


def play(lines: Iterable[str], *asks: Ask) -> tuple[list[Act], str]:
    shown = io.StringIO()
    agent = HumanAgent(read=typing(lines), console=Console(file=shown, width=100))
    return agent.act(asks), shown.getvalue()


CHOICE = {"output": OutputRule("choice", choices=("yes", "no")), "options": ("yes", "no")}


def test_a_turn_ends_with_an_empty_line() -> None:
    acts, _ = play(["", "first", "second", "", "other", ""], ask(), ask())
    assert [act.text for act in acts] == ["first\nsecond", "other"]
    assert {act.status for act in acts} == {TurnStatus.OK}


def test_the_person_is_shown_who_speaks_what_is_new_and_the_bounds() -> None:
    new = (Message("opening", "You argue for [b]yes[/b]."), Message("heard", "con: no"), Message("prompt", "Go."))
    _, shown = play(["x", ""], ask(*new, max_words=7, quote_field="passage"))
    for part in (
        "You are pro.",
        "You argue for [b]yes[/b].",
        "con: no",
        "Go.",
        "At most 7 words.",
        "Quotes of the passage",
    ):
        assert part in shown


def test_what_a_task_lacks_is_not_said_to_be_checked() -> None:
    _, shown = play(["x", ""], ask(quote_field="evidence"))
    assert "are checked" not in shown


def test_a_new_episode_is_announced_once() -> None:
    _, shown = play(["x", "", "y", "", "z", ""], ask(episode="one"), ask(episode="one"), ask(episode="two"))
    assert (shown.count("episode one"), shown.count("episode two")) == (1, 1)


def test_end_of_input_stops_the_run() -> None:
    (act,), _ = play([], ask())
    assert (act.text, act.status, act.error) == ("", TurnStatus.CANCELLED, "human has left: the input has ended")
    (act,), _ = play([], ask(**CHOICE))
    assert act.status is TurnStatus.CANCELLED


def test_end_of_input_after_some_lines_ends_the_turn() -> None:
    (act,), _ = play(["so far"], ask())
    assert (act.text, act.status) == ("so far", TurnStatus.OK)


def test_a_choice_is_made_by_number_or_text_and_asked_for_again() -> None:
    acts, shown = play(["2", "maybe", "0", "3", "yes"], ask(**CHOICE), ask(**CHOICE))
    assert [act.text for act in acts] == ["no", "yes"]
    assert "  1. yes" in shown
    assert shown.count("Type a number from 1 to 2") == 3


def test_a_choice_in_a_tag_may_be_explained() -> None:
    rule = OutputRule("choice", choices=("yes", "no"), tag="answer")
    (act,), _ = play(["because", "", "1"], ask(output=rule, options=("yes", "no")))
    assert act.text == "because\n<answer>yes</answer>"


def test_the_wanted_form_is_told() -> None:
    _, shown = play(["x", ""], ask(output=OutputRule("call", tools=("calculator",))))
    assert 'Call one of calculator: {"tool": NAME, "arguments": {...}}.' in shown
    assert "Put it between <call> and </call>." in shown


def test_a_pattern_is_told_with_what_it_reads() -> None:
    rule = OutputRule("regex", pattern=r"(?P<value>-?\d+)", tag="answer")
    _, shown = play(["x", ""], ask(output=rule))
    assert r"Write value so that the whole fits the pattern (?P<value>-?\d+) . Put it between <answer> and" in shown


def test_what_could_steer_the_terminal_is_not_shown() -> None:
    _, shown = play(["x", ""], ask(Message("heard", "a\x1b[31mb\x07\u202ec\u2028d\rend")))
    assert "a\ufffd[31mb\ufffd\ufffdc\ufffdd\ufffdend" in shown
    assert not set("\x1b\x07\r\u202e\u2028") & set(shown)


def test_typed_bytes_that_are_no_text_can_be_stored() -> None:
    (act,), _ = play(["a\udcffb", ""], ask())
    assert act.text == "a?b"


def test_the_person_is_an_agent_by_name() -> None:
    agent = AGENTS.build("human:name=ann")
    assert agent.name == "ann"
    assert isinstance(agent, HumanAgent)
    assert agent.interactive
