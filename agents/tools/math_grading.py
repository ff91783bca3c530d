"""What compares two mathematical expressions; runs in the processes of `arena.agents.tools.forkserver` alone.

https://github.com/huggingface/Math-Verify
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]  # it has no annotations

__all__ = ["compare"]

# What comes here is the expression itself: nothing is to be looked for in it.
_WHOLE = [LatexExtractionConfig(boxed_match_priority=-1)]


def compare(said: str, right: str) -> Literal["same", "other", "said", "right"]:
    """Whether two expressions in LaTeX are equal; ``said`` or ``right`` if that one is none."""
    known, found = _parsed(right), _parsed(said)
    if not known:
        return "right"
    if not found:
        return "said"
    # The process has limits of its own, and the library's would need signals.
    return "same" if verify(known, found, timeout_seconds=None) else "other"


def _parsed(text: str) -> list[Any]:
    found: list[Any] = parse(
        f"${text}$", _WHOLE, fallback_mode="no_fallback", extraction_mode="first_match", parsing_timeout=None
    )
    return found


logging.disable(logging.CRITICAL)  # it warns that it has no limit on time
compare("x^2 + \\frac{1}{2} = \\{1, 2\\}", "\\sqrt{2}")  # loads what would else be loaded in every call
