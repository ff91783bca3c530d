"""What a server answered, read without trust: a field of an odd type counts as one that is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from arena.protocols.errors import BackendError
from arena.protocols.thinking import part_thinking

__all__ = ["Reply", "UnreadableReplyError", "read_reply"]


class UnreadableReplyError(BackendError):
    """The server answered with something else than a chat completion."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a server."""

    text: str
    """What was said, as it came; where the model refused, its words for it."""
    thinking: str = ""
    """Hidden thinking, where the server shows it."""
    finish: Literal["stop", "length", "refused"] = "stop"
    prompt_tokens: int | None = None
    """Tokens of the whole request; None if the server tells no usage."""
    cached_tokens: int = 0
    """How many of them the server had in its own cache."""
    written_tokens: int = 0
    """How many of them it put there, which costs more with some models."""
    completion_tokens: int | None = None
    """Tokens drawn, hidden thinking included; None if the server tells no usage."""
    thinking_tokens: int | None = None
    """Tokens of the thinking; None where the server does not count them apart."""
    top_logprobs: tuple[tuple[str, float], ...] = ()
    """The likeliest first tokens and their log-probs in nats, if they were asked for."""


class _Message(BaseModel):
    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: Any = None
    logprobs: Any = None


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None


class _PromptDetails(BaseModel):
    cached_tokens: int | None = Field(None, ge=0)
    cache_write_tokens: int | None = Field(None, ge=0)


class _CompletionDetails(BaseModel):
    reasoning_tokens: int | None = Field(None, ge=0)


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Top(BaseModel):
    token: str
    logprob: float


class _First(BaseModel):
    top_logprobs: list[_Top]


class _Logprobs(BaseModel):
    content: list[_First] = Field(min_length=1)


def read_reply(body: bytes) -> Reply:
    """Read the body of an answer.

    Raises:
        UnreadableReplyError: it is no JSON, no chat completion, or has no choice in it.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise UnreadableReplyError(f"the server's answer is no chat completion ({where}: {first['msg']})") from None
    choice = completion.choices[0]
    usage = _usage(completion.usage)
    text, thinking = _said(choice.message)
    refusal = _text(choice.message.refusal)
    cached, written = _cached(usage)
    return Reply(
        text=text or refusal,
        thinking=thinking,
        finish=_finish(choice.finish_reason, refusal),
        prompt_tokens=usage.prompt_tokens if usage else None,
        cached_tokens=cached,
        written_tokens=written,
        completion_tokens=usage.completion_tokens if usage else None,
        thinking_tokens=_thinking_tokens(usage),
        top_logprobs=_top(choice.logprobs),
    )


def _said(message: _Message) -> tuple[str, str]:
    """Visible text and hidden thinking: servers tell it apart, or leave it in tags."""
    text, inside = part_thinking(_text(message.content))
    apart = (_text(message.reasoning_content) or _text(message.reasoning)).strip()
    return text, "\n".join(filter(None, (apart, inside)))


def _text(value: Any) -> str:
    if isinstance(value, list):  # content in parts, as some servers send it
        parts = [part.get("text") for part in value if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _finish(reason: Any, refusal: str) -> Literal["stop", "length", "refused"]:
    if refusal or reason == "content_filter":
        return "refused"
    return "length" if reason == "length" else "stop"


def _usage(value: Any) -> _Usage | None:
    try:
        return _Usage.model_validate(value)
    except ValidationError:
        return None


def _cached(usage: _Usage | None) -> tuple[int, int]:
    """Tokens of the request that the server read from its cache, and that it wrote there: at most all of them."""
    if usage is None or usage.prompt_tokens_details is None:
        return 0, 0
    details = usage.prompt_tokens_details
    read = min(details.cached_tokens or 0, usage.prompt_tokens)
    return read, min(details.cache_write_tokens or 0, usage.prompt_tokens - read)


def _thinking_tokens(usage: _Usage | None) -> int | None:
    if usage is None or usage.completion_tokens_details is None:
        return None
    count = usage.completion_tokens_details.reasoning_tokens
    return None if count is None else min(count, usage.completion_tokens)


def _top(value: Any) -> tuple[tuple[str, float], ...]:
    try:
        first = _Logprobs.model_validate(value).content[0]
    except ValidationError:
        return ()
    return tuple((each.token, each.logprob) for each in first.top_logprobs)
