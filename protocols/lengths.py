"""How long a text is, in words, in any script: what limits, conditions and rewards count.

A word is a run of visible characters. What prints as nothing (white space, control and format characters, fillers)
separates words, so none can be glued together unseen. Each Chinese character, kana and Hangul syllable is a word of its
own, marks behind it included. Of a run of more than 40 characters every 40 that are begun are one word.
"""

from __future__ import annotations

import itertools
import re

__all__ = ["count_words", "cut_words"]

_NOTHING = (
    "\\s\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""White space, Cc and Cf, and characters of other categories that print as nothing."""
_SYLLABLES = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u3163\u3165-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c\uac00-\ud7a3"
    "\uf900-\ufaff\uff66-\uff9d\uffa1-\uffdc\U00016fe0-\U00018cff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
"""Han, kana, bopomofo, Yi, Tangut, and Hangul."""
_MARKS = (
    "\u0300-\u036f\u3001-\u3003\u3008-\u301f\u302a-\u302f\u3099-\u309c\uff01-\uff0f\uff1a-\uff20\uff5b-\uff65"
    "\uff9e\uff9f"
)
"""Accents and punctuation that stand behind them."""
_LEADS, _TAILS = "\u1100-\u115e\ua960-\ua97c", "\u1161-\u11ff\ud7b0-\ud7fb"
"""Hangul letters that make up a syllable."""
_WORD = re.compile(
    f"[{_SYLLABLES}][{_MARKS}]{{0,3}}|[{_LEADS}][{_TAILS}]{{0,3}}|[^{_NOTHING}{_SYLLABLES}{_LEADS}]{{1,40}}"
)
_ASCII_WORD = re.compile("[!-~]{1,40}")


def count_words(text: str) -> int:
    """How many words a text has."""
    return len((_ASCII_WORD if text.isascii() else _WORD).findall(text))


def cut_words(text: str, most: int) -> str:
    """The text up to its word number ``most``, as it was written; the text itself if it has no more."""
    plain = text.isascii()
    if len(text) <= (2 * most - 1 if plain else most):
        return text
    words = list(itertools.islice((_ASCII_WORD if plain else _WORD).finditer(text), most + 1))
    return text if len(words) <= most else text[: words[-2].end()]
