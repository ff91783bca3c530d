"""What is hidden of a turn that holds thinking."""

import time

import pytest

from arena.protocols.thinking import part_thinking


@pytest.mark.parametrize(
    ("text", "visible", "hidden"),
    [
        ("hi there", "hi there", ""),
        ("<think>secret</think>hi", "hi", "secret"),
        ("  <think>\n secret\n</think>\n\nhi ", "hi", "secret"),
        ("hi <think>secret</think>", "hi", "secret"),
        ("<THINK>secret</Think>hi", "hi", "secret"),
        ("<think>a</think>hi<think>b</think> you", "hi you", "a\nb"),
        ("<think>a<think>b</think>secret</think>hi", "hi", "a\nb\nsecret"),
        ("hi <think>never closed", "hi", "never closed"),
        ("<think>a<think>b</think>hi", "", "a\nb\nhi"),
        ("< think >secret< / think >hi", "hi", "secret"),
        ('<think mode="deep">secret</think>hi', "hi", "secret"),
        ("<think></think>hi", "hi", ""),
        ("<think>", "", ""),
        # No block: nothing is hidden, and nothing is changed.
        (" hi </think> there ", " hi </think> there ", ""),
        ("<thinking>hi</thinking>", "<thinking>hi</thinking>", ""),
        ("a < think, b > c", "a < think, b > c", ""),
    ],
)
def test_blocks_of_thinking_are_hidden(text: str, visible: str, hidden: str) -> None:
    assert part_thinking(text) == (visible, hidden)


def test_many_brackets_take_no_time() -> None:
    began = time.perf_counter()
    for text in ("<" * 300_000, "<think>" * 100_000, "<think " * 100_000, "< " * 200_000, "<" + " " * 300_000):
        part_thinking(text)
    assert time.perf_counter() - began < 5
