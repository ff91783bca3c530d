"""What went wrong with a request, in words that hold no secret, and whether and when to try again.

Tried again are faults that may pass: HTTP 408, 429 and 5xx, time-outs, broken connections, and answers that are no chat
completion. The wait before the k-th new try is drawn uniformly from [0, min(60, 2^(k-1))] seconds ("full jitter":
Brooker 2015, Exponential Backoff And Jitter, AWS Architecture Blog); a server's Retry-After comes before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from arena.agents.openai.replies import UnreadableReplyError
from arena.agents.sampling import uniforms
from arena.protocols.inert import inert_line

__all__ = ["Failure", "backoff", "find_failure"]

_BASE, _CAP = 1.0, 60.0
_MOST_WAIT = 300.0
"""Seconds; a server that asks to wait longer is not asked again."""
_LONGEST = 300
"""Characters of a server's message that are told."""
_OPENAI_BROKE = "insufficient_quota"
"""OpenAI's code, under HTTP 429, for an account without money: waiting does not help."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that failed."""

    what: str
    again: bool
    """It may pass."""
    status: int | None = None
    """HTTP status, if there was an answer."""
    retry_after: float = 0.0
    """Seconds that the server asks to wait."""


def backoff(seed: int, number: int, retry_after: float = 0.0) -> float:
    """Seconds to wait before new try ``number`` (from 1): a function of the turn's seed, so that runs repeat."""
    (u,) = uniforms([seed], number)
    # After a time that the server named to all at once, a second is spread over so that not all come back at once.
    return retry_after + float(u) * (_BASE if retry_after else min(_CAP, _BASE * 2.0 ** (number - 1)))


def find_failure(error: Exception, timeout: float, secret: str, now: Callable[[], datetime]) -> Failure | None:
    """What ``error`` means; None if it is no fault of the server or the way to it.

    Args:
        error: what the SDK raised.
        timeout: seconds that an answer may take.
        secret: the API key, which servers like to repeat.
        now: the time of day, for Retry-After as a date.
    """
    import openai

    if isinstance(error, UnreadableReplyError):
        return Failure(_words(str(error), secret), again=True)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Failure(f"no answer within {timeout:g} s", again=True)
    if isinstance(error, openai.APIStatusError):
        return _refused(error, secret, now)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return Failure(_words(f"the connection failed: {type(cause).__name__}: {cause}", secret), again=True)
    if isinstance(error, openai.OpenAIError):
        return Failure(_words(f"{type(error).__name__}: {error}", secret), again=False)
    return None


def _refused(error: Any, secret: str, now: Callable[[], datetime]) -> Failure:
    status = int(error.status_code)
    what = _words(f"HTTP {status}: {_message(error)}", secret)
    again = status in (408, 429) or status >= 500
    if error.code == _OPENAI_BROKE:
        again = False
    wait = _retry_after(error.response.headers.get("retry-after", ""), now)
    if again and wait > _MOST_WAIT:
        return Failure(f"{what} (the server asks to wait {wait:g} s)", again=False, status=status)
    return Failure(what, again, status, wait)


def _message(error: Any) -> str:
    body = error.body
    if isinstance(body, dict):
        told = body.get("message") or body.get("detail") or body.get("error")
        return str(told or body)
    return str(body or error.message)


def _words(text: str, secret: str) -> str:
    if secret:
        text = text.replace(secret, "***")
    text = inert_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _retry_after(header: str, now: Callable[[], datetime]) -> float:
    """Seconds; 0 where there is none to be read."""
    try:
        seconds = float(header)
    except ValueError:
        pass
    else:
        return seconds if 0.0 < seconds < float("inf") else 0.0
    try:
        date = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now()).total_seconds())
