"""From messages to token ids and back, growing a context by exact prefix.

The ledger of a turn is what was sampled, so an encoder never tokenises a model's own turn again: it only says which
ids to append to the context before the next turn (`Encoder.extend`). Where a chat template rewrites what came before,
that is said too (``fresh``) and a new sequence starts.

Text is data. A control token spelt out in a task or in an opponent's turn (``<|im_end|>``, ``<bos>``) never becomes
one.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from arena.agents.types import Context, Message
from arena.protocols.errors import ConfigError, suggest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ChatEncoder", "Encoder", "WordEncoder"]

SPECIALS = ("<pad>", "<bos>", "<eos>")
"""Control tokens of a word-level vocabulary; their ids are 0, 1, 2."""
THINK, THOUGHT = "<think>", "</think>"
"""What hidden thinking stands between, at the beginning of a turn."""


class Encoder(Protocol):
    """Knows how a model wants to be spoken to."""

    end_ids: tuple[int, ...]
    """Ids that end a turn when they are drawn."""
    one_token_turns: bool
    """A turn that the protocol limits to one token is complete without an end token (word-level vocabularies)."""

    def extend(self, context: Context, new: Sequence[Message]) -> tuple[list[int], bool]:
        """Ids to append to ``context.ids`` before the role speaks, and whether they replace it (a fresh start).

        Changes ``context.state`` only; the agent appends. The first call of an episode is not a fresh start.

        Raises:
            ConfigError: the text cannot be encoded.
        """
        ...

    def encode_turn(self, text: str, *, end: bool) -> list[int]:
        """Ids of an own turn with this text, as a model would have drawn them; ``end`` adds the end token."""
        ...

    def encode_exchange(self, prompt: str, reply: str) -> list[int]:
        """Ids of a whole conversation of one prompt and one reply, as a reward model reads it.

        Raises:
            ConfigError: the text cannot be encoded.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of drawn ids: without control tokens, stripped."""
        ...

    def opens_thinking(self, context: Context) -> bool:
        """Whether the prompt ends in ``<think>``, so that the turn begins inside hidden thinking."""
        ...

    def thinking(self, context: Context, ids: Sequence[int]) -> int:
        """How many ids of a turn, from the first, are hidden thinking, tags included; all if it was not ended.

        Args:
            context: as it was when the turn began.
            ids: of the turn, without its end token.
        """
        ...

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer to save beside the weights."""
        ...


class WordEncoder:
    """One token a word: a context is ``<bos>`` and then the words of all messages in order.

    Args:
        words: the vocabulary without the control tokens; ids count from 3.

    Raises:
        ConfigError: a word is a control token, repeated, empty or has white space.
    """

    one_token_turns = True
    pad_id, bos_id, eos_id = 0, 1, 2
    end_ids: tuple[int, ...] = (2,)

    def __init__(self, words: Iterable[str]) -> None:
        self.words: tuple[str, ...] = tuple(words)
        for word in self.words:
            if word in SPECIALS or word.split() != [word]:
                raise ConfigError(
                    f"{word!r} cannot be a word of a vocabulary: {', '.join(SPECIALS)} are control tokens"
                )
        self._ids = {word: number for number, word in enumerate(self.words, start=len(SPECIALS))}
        if len(self._ids) != len(self.words):
            raise ConfigError("the vocabulary has repeated words")
        self._names = (*SPECIALS, *self.words)
        # Openings are long and all different, cues and quotes short and few: the bound keeps the first from piling up.
        self.encode = functools.lru_cache(maxsize=1 << 14)(self._encode)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[type[WordEncoder], tuple[tuple[str, ...]]]:
        return type(self), (self.words,)

    def _encode(self, text: str) -> tuple[int, ...]:
        try:
            return tuple([self._ids[word] for word in text.split()])
        except KeyError as error:
            word = error.args[0]
        if word in SPECIALS:
            raise ConfigError(f"'{word}' is a control token and cannot stand in a text: {text[:80]!r}")
        hint = suggest(word, self._ids) if len(self._ids) <= 40 else suggest(word, self._ids).split(" There is")[0]
        raise ConfigError(
            f"'{word}' is not in the model's vocabulary of {len(self.words)} words (in {text[:80]!r}).{hint}"
            " Add it to 'words:' of the model, and train anew."
        )

    def extend(self, context: Context, new: Sequence[Message]) -> tuple[list[int], bool]:
        """See `Encoder.extend`; never a fresh start."""
        delta = [] if context.ids else [self.bos_id]
        for message in new:
            delta += self.encode(message.text)
        return delta, False

    def encode_turn(self, text: str, *, end: bool) -> list[int]:
        """See `Encoder.encode_turn`."""
        return [*self.encode(text), self.eos_id] if end else list(self.encode(text))

    def encode_exchange(self, prompt: str, reply: str) -> list[int]:
        """See `Encoder.encode_exchange`: the words of both, between ``<bos>`` and ``<eos>``."""
        return [self.bos_id, *self.encode(prompt), *self.encode(reply), self.eos_id]

    def decode(self, ids: Sequence[int]) -> str:
        """The words, separated by one space; control tokens are left out."""
        if len(ids) == 1:
            return self._names[ids[0]] if ids[0] >= len(SPECIALS) else ""
        return " ".join([self._names[i] for i in ids if i >= len(SPECIALS)])

    def opens_thinking(self, context: Context) -> bool:
        """See `Encoder.opens_thinking`: the last word is ``<think>``."""
        return bool(context.ids) and context.ids[-1] == self._ids.get(THINK)

    def thinking(self, context: Context, ids: Sequence[int]) -> int:
        """See `Encoder.thinking`; only a vocabulary with the word ``<think>`` has any."""
        think = self._ids.get(THINK)
        if think is None or not ids or (ids[0] != think and not self.opens_thinking(context)):
            return 0
        thought = self._ids.get(THOUGHT)
        return next((number for number, token in enumerate(ids, start=1) if token == thought), len(ids))

    @functools.cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The same vocabulary as a transformers tokenizer, so that a saved folder opens with AutoTokenizer."""
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast

        core = Tokenizer(models.WordLevel({name: i for i, name in enumerate(self._names)}, unk_token=SPECIALS[0]))
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        fast: Any = PreTrainedTokenizerFast
        tokenizer: PreTrainedTokenizerBase = fast(
            tokenizer_object=core, pad_token=SPECIALS[0], bos_token=SPECIALS[1], eos_token=SPECIALS[2]
        )
        return tokenizer


@dataclass(slots=True)
class _Chat:
    """What a chat context remembers beside its ids."""

    messages: list[dict[str, str]] = field(default_factory=list)
    shown: str = ""
    """The conversation as last rendered, up to where the own turn begins."""
    cue: str = ""
    start: int = 0
    """Length of the context where the last own turn began to be drawn."""


class ChatEncoder:
    """Speaks through a tokenizer's chat template.

    ``opening`` is the system message (or heads the first user message where a template has none), ``heard`` and
    ``prompt`` make one user message between two own turns, own turns are the assistant's, and the cue stands at the
    beginning of the own turn. A later turn appends only what the template puts after the own turn as it was drawn;
    the end-of-turn token of a turn that was cut is part of it. If the rendered conversation does not begin with the
    earlier one (some templates drop the thinking of earlier turns), the turn is a fresh start.

    Args:
        tokenizer: of the model.
        template: a Jinja chat template instead of the tokenizer's own.

    Raises:
        ConfigError: there is no template, or it cannot render a conversation.
    """

    one_token_turns = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._template = template
        if template is None and not getattr(tokenizer, "chat_template", None):
            raise ConfigError(
                f"the tokenizer of '{tokenizer.name_or_path}' has no chat template: use an instruct model"
            )
        added = tokenizer.added_tokens_decoder
        self._controls = [token.content for token in added.values() if len(token.content) > 1]
        special = [token.content for token in added.values() if token.special and len(token.content) > 1]
        # Longest first: a control text inside another one must not hide it.
        self._any_control = _one_of(self._controls)
        self._special_control = _one_of(special)
        self._system_role = self._renders_system()
        self._end = self._end_of_turn()
        ends = [token for token in (self._end, tokenizer.eos_token_id) if token is not None]
        if not ends:
            raise ConfigError(f"the tokenizer of '{tokenizer.name_or_path}' has no end token")
        self.end_ids: tuple[int, ...] = tuple(dict.fromkeys(ends))

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer."""
        return self._tokenizer

    def extend(self, context: Context, new: Sequence[Message]) -> tuple[list[int], bool]:
        """See `Encoder.extend`.

        Raises:
            ConfigError: the template refuses the conversation.
        """
        before: _Chat | None = context.state
        chat = _Chat() if before is None else _Chat(list(before.messages))
        own_ids: list[int] = []
        own_text = ""
        if before is not None:
            own_ids = context.ids[before.start :]
            own_text = self._inert(before.cue + self._text(own_ids), own=True).strip()
            chat.messages.append({"role": "assistant", "content": own_text})
        self._add(chat, new)
        conversation = self._render(chat.messages)
        chat.shown = conversation
        delta, fresh = None, False
        if before is not None:
            rest = self._rest(before.shown, own_text, own_ids, conversation)
            fresh = rest is None
            delta = None if rest is None else self._encode(rest + self._inert(chat.cue))
        if delta is None:
            delta = self._encode(conversation + self._inert(chat.cue))
        chat.start = len(delta) if fresh else len(context.ids) + len(delta)
        context.state = chat
        return delta, fresh

    def encode_turn(self, text: str, *, end: bool) -> list[int]:
        """See `Encoder.encode_turn`."""
        ids = self._encode(self._inert(text))
        return [*ids, self.end_ids[0]] if end else ids

    def encode_exchange(self, prompt: str, reply: str) -> list[int]:
        """See `Encoder.encode_exchange`: the template's own rendering, whatever it puts after the last turn included.

        Raises:
            ConfigError: the template refuses the conversation.
        """
        talk = [("user", self._inert(prompt)), ("assistant", self._inert(reply))]
        messages = [{"role": role, "content": content} for role, content in talk]
        return self._encode(self._render(messages, prompt=False))

    def encode_text(self, text: str) -> list[int]:
        """Ids of plain text; control tokens spelt out in it stay text."""
        return self._encode(self._inert(text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text without special tokens, stripped."""
        return self._text(ids).strip()

    def opens_thinking(self, context: Context) -> bool:
        """See `Encoder.opens_thinking`: some templates begin every own turn with ``<think>``."""
        chat: _Chat | None = context.state
        return chat is not None and not chat.cue and chat.shown.rstrip().endswith(THINK)

    def thinking(self, context: Context, ids: Sequence[int]) -> int:
        """See `Encoder.thinking`."""
        if not self._whole(ids).lstrip().startswith(THINK) and not self.opens_thinking(context):
            return 0
        counts = range(1, len(ids) + 1)
        place = bisect.bisect_left(counts, True, key=lambda count: THOUGHT in self._whole(ids[:count]))
        return min(place + 1, len(ids))

    def _whole(self, ids: Sequence[int]) -> str:
        """Text with special tokens: in some vocabularies the tags of thinking are."""
        return str(self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def _text(self, ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _add(self, chat: _Chat, new: Sequence[Message]) -> None:
        said = [message.text for message in new if message.kind in {"heard", "prompt"}]
        opening = [message.text for message in new if message.kind == "opening"]
        chat.cue = " ".join(message.text for message in new if message.kind == "cue")
        if opening and self._system_role and not chat.messages:
            chat.messages.append({"role": "system", "content": self._inert("\n\n".join(opening))})
        else:
            said = [*opening, *said]
        # Templates expect users and assistants to alternate, so there is always one user message, if an empty one.
        chat.messages.append({"role": "user", "content": self._inert("\n\n".join(said))})

    def _rest(self, shown: str, own_text: str, own_ids: list[int], conversation: str) -> str | None:
        """What the template puts after the own turn as drawn; None if the conversation was rewritten."""
        if not conversation.startswith(shown):
            return None
        tail = conversation[len(shown) :].lstrip()
        if not tail.startswith(own_text):
            return None
        tail = tail[len(own_text) :]
        if own_ids and own_ids[-1] in self.end_ids:
            tail = tail.removeprefix(str(self._tokenizer.convert_ids_to_tokens(own_ids[-1])))
        return tail

    def _render(self, messages: list[dict[str, str]], *, prompt: bool = True) -> str:
        from jinja2 import TemplateError

        try:
            text = self._tokenizer.apply_chat_template(
                messages, chat_template=self._template, tokenize=False, add_generation_prompt=prompt
            )
        except TemplateError as error:
            raise ConfigError(f"the chat template of '{self._tokenizer.name_or_path}' refuses: {error}") from error
        return str(text)

    def _renders_system(self) -> bool:
        try:
            probe = self._render([{"role": "system", "content": "\ue000"}, {"role": "user", "content": "u"}])
        except ConfigError:
            return False
        return "\ue000" in probe

    def _end_of_turn(self) -> int | None:
        """The control token that the template puts after an own turn."""
        talk = [("user", "u"), ("assistant", "\ue000"), ("user", "v")]
        text = self._render([{"role": role, "content": content} for role, content in talk])
        after = text.partition("\ue000")[2].lstrip()
        found = self._any_control.match(after) if self._any_control else None
        if found is None:
            return None
        return next(i for i, token in self._tokenizer.added_tokens_decoder.items() if token.content == found.group())

    def _inert(self, text: str, *, own: bool = False) -> str:
        """Put a place-holder for every control token spelt out, so that the template sees the rest as it is.

        In own turns only special tokens are held: templates look for tags such as ``</think>`` there.
        """
        text = _HELD.sub("\ufffd", text)
        pattern = self._special_control if own else self._any_control
        if pattern is None:
            return text
        return pattern.sub(lambda found: chr(_HOLD + self._controls.index(found.group())), text)

    def _encode(self, text: str) -> list[int]:
        """Ids of rendered text: the template's control tokens as such, held ones as plain text."""
        ids: list[int] = []
        for piece in _HELD.split(text):
            if len(piece) == 1 and _HELD.match(piece):
                # Letter by letter, because no single letter is a control token.
                for letter in self._controls[ord(piece) - _HOLD]:
                    ids += self._plain(letter)
            elif piece:
                ids += self._plain(piece)
        return ids

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids


_HOLD = 0xF0000
_HELD = re.compile(f"([{chr(_HOLD)}-{chr(_HOLD + 0xFFFD)}])")


def _one_of(texts: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True)))) if texts else None
