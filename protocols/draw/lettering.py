"""How wide a text will be in a font that is not known: what the widest usual one (DejaVu Sans) needs, or more."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["text_width", "wrap_text"]

_EM = {
    **dict.fromkeys("il'|", 0.28),
    **dict.fromkeys(" ,.:;jI![]()/\\", 0.36),
    **dict.fromkeys('ftr"-{}', 0.42),
    **dict.fromkeys("csxyz_*^", 0.56),
    **dict.fromkeys("mMwW@%", 1.0),
    **dict.fromkeys("+=<>#~", 0.84),
    **dict.fromkeys("ABDGHNOQRU&", 0.78),
}
_MONO_WIDE = 1.1


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels of ``text`` in a sans-serif font of ``size`` pixels, on the safe side."""
    return sum(map(_em, text)) * size * (1.12 if bold else 1.0)


def _em(character: str) -> float:
    if character in _EM:
        return _EM[character]
    if character.isascii():
        return 0.72 if character.isupper() else 0.64
    return _MONO_WIDE if unicodedata.east_asian_width(character) in "WF" else 0.85


def wrap_text(text: str, size: float, width: float, most: int = 3) -> list[str]:
    """``text`` in at most ``most`` lines not wider than ``width`` pixels; what is left over becomes an ellipsis."""
    lines: list[str] = []
    for word in _pieces(text.split(), size, width):
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return [*lines[: most - 1], _cut(lines[most - 1], size, width)] if len(lines) > most else lines


def _pieces(words: Sequence[str], size: float, width: float) -> Iterable[str]:
    """Words, those that are too wide in parts."""
    for word in words:
        part = ""
        for character in word:
            if part and text_width(part + character, size) > width:
                yield part
                part = ""
            part += character
        yield part


def _cut(line: str, size: float, width: float) -> str:
    while line and text_width(f"{line} …", size) > width:
        line = line[:-1]
    return f"{line.rstrip()} …"
