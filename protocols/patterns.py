"""Regular expressions on what models say: RE2, which takes time linear in the text whatever the pattern."""

from __future__ import annotations

import functools
import re
from typing import Any

import re2  # type: ignore[import-untyped]  # it has neither stubs nor annotations

__all__ = ["compile_pattern", "pattern_fault"]

_MAX_PATTERN = 1000
_MAX_MEMORY = 8 << 20
_GROUP = re.compile(r"\(\?P?<(\w+)>")


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The pattern, compiled. Texts must be free of lone surrogates.

    Raises:
        re2.error: it is not RE2.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return re2.compile(pattern, options)


def pattern_fault(pattern: str) -> str | None:
    """What is wrong with a pattern; None if nothing is."""
    if len(pattern) > _MAX_PATTERN:
        return f"the pattern has {len(pattern):,} characters, at most {_MAX_PATTERN:,} are allowed"
    try:
        compile_pattern(pattern)
    except UnicodeEncodeError:
        return "the pattern holds half of a surrogate pair"
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error.args[0]
        return f"{pattern!r:.80} is not a regular expression of RE2: {why:.120}"
    names = _GROUP.findall(pattern)
    twice = [name for name in names if names.count(name) > 1]
    return f"the group '{twice[0]}' stands twice in {pattern!r:.80}" if twice else None
