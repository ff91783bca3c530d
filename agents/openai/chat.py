"""One role's view of an episode as a chat: the opening is the system message, the role's own turns are the
assistant's, and everything else that it is told is the user's.

A chat is a tuple, so that candidates of a best-of-n turn branch off by sharing it. User messages that follow one
another are joined, since many servers want users and assistants to alternate.

The cue, the words that the role's own turn begins with, is either the beginning of the assistant's message that the
server goes on from (a prefill; few servers can), or an instruction at the end of the user's message. The turn is then
what comes after the cue, whether or not the model repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from arena.agents.types import Message

__all__ = ["Chat", "ChatMessage", "spoken", "tell", "to_wire", "without_cue"]

ChatMessage: TypeAlias = tuple[Literal["system", "user", "assistant"], str]
"""Who, and what."""
Chat: TypeAlias = tuple[ChatMessage, ...]

_YOUR_TURN = "It is your turn."
"""Stands for a user's message where nothing new was said: a server answers only to a user."""


def tell(chat: Chat, new: Sequence[Message], *, prefill: bool) -> tuple[Chat, str]:
    """The chat with what is new in it, and the cue.

    Args:
        chat: as it was after the role's last turn.
        new: see `arena.agents.types.Ask.new`. An opening that comes later than first is told like everything else.
        prefill: the server goes on from the cue, so it is no part of the user's message.
    """
    said: list[str] = []
    cue = " ".join(message.text for message in new if message.kind == "cue")
    for message in new:
        if message.kind == "opening" and not chat:
            chat = (("system", message.text),)
        elif message.kind != "cue":
            said.append(message.text)
    if cue and not prefill:
        said.append(f"Begin your answer with: {cue}")
    return _heard(chat, "\n\n".join(said)), cue


def _heard(chat: Chat, text: str) -> Chat:
    if chat and chat[-1][0] == "user":
        # The last answer failed or was empty; what it was an answer to stays.
        return (*chat[:-1], ("user", f"{chat[-1][1]}\n\n{text}")) if text else chat
    return (*chat, ("user", text or _YOUR_TURN))


def spoken(chat: Chat, text: str) -> Chat:
    """The chat with the role's own turn in it; some servers refuse an empty one, so it is left out."""
    return (*chat, ("assistant", text)) if text.strip() else chat


def to_wire(chat: Chat) -> list[dict[str, str]]:
    """The chat as a request has it; halves of surrogate pairs, which cannot be sent, become question marks."""
    return [{"role": role, "content": content.encode("utf-8", "replace").decode()} for role, content in chat]


def without_cue(text: str, cue: str) -> str:
    """The turn without the cue that the model repeated."""
    text = text.strip()
    return text[len(cue) :].lstrip() if cue and text.startswith(cue) else text
