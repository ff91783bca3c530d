"""Words of texts in many scripts, counted by hand."""

import time
import unicodedata

import pytest

from arena.protocols.lengths import count_words, cut_words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("one", 1),
        ("one two,  three-four\nfive's", 4),
        ("Straße über naïve", 3),
        # Invisible characters separate: zero-width space and joiner, word joiner, soft hyphen, no-break space, fillers.
        ("a\u200bb\u200dc\u2060d\u00ade\u00a0f\u3164g\u115fh\ufe0fi\u2800j\x00k\x7fl\U000e0041m", 13),
        ("a\u2028b\u3000c\u180ed\ufeffe\u2066f", 6),
        # Every Chinese character, kana and Hangul syllable is a word; punctuation behind it belongs to it.
        ("这是一个很长的中文句子", 11),
        ("漢字、かな。", 4),
        ("カタカナｶﾞ", 5),
        ("한국어 말", 4),
        ("the 漢字 word", 4),
        ("abc漢def", 3),
        ("\U00020000\U00030000", 2),
        # Of long runs, every 40 that are begun.
        ("x" * 40, 1),
        ("x" * 41, 2),
        ("x" * 400 + " y", 11),
        ("é" * 81, 3),
        ("one_two/three.four," * 20, 10),
    ],
)
def test_words(text: str, count: int) -> None:
    assert count_words(text) == count


def test_a_syllable_in_parts_is_one_word() -> None:
    assert count_words(unicodedata.normalize("NFD", "한국어 말")) == 4
    assert count_words(unicodedata.normalize("NFD", "がぎ")) == 2


def test_every_format_and_control_character_separates() -> None:
    gluing = [
        hex(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zs", "Zl", "Zp") and count_words(f"a{chr(code)}b") != 2
    ]
    assert gluing == []


@pytest.mark.parametrize(
    ("text", "most", "cut"),
    [
        ("one  two\n three four", 3, "one  two\n three"),
        (" one two ", 2, " one two "),
        (" one two three", 2, " one two"),
        ("漢字かな", 2, "漢字"),
        ("漢字。かな", 2, "漢字。"),
        ("a\u200bb\u200bc", 2, "a\u200bb"),
        ("x" * 100, 2, "x" * 80),
        ("abc", 1, "abc"),
        ("ab", 2, "ab"),
    ],
)
def test_what_is_too_long_is_kept_as_it_was_written_up_to_there(text: str, most: int, cut: str) -> None:
    assert cut_words(text, most) == cut
    assert count_words(cut) <= most


def test_a_million_characters_take_no_time() -> None:
    began = time.perf_counter()
    for text in ("x" * 10**6, "漢" * 10**6, "\u200b" * 10**6, "a " * 500_000):
        count_words(text)
        cut_words(text, 100)
    assert time.perf_counter() - began < 5
