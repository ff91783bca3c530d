"""What a judge writes before and as its answer: hidden thinking, a visible rationale, the answer itself.

Each part has tokens of its own, so none can eat the next one's. A rationale that has not stated the answer when its
tokens are used up, or when the model ends it, is followed by the cue (``Answer:``) and the reserve, in which the answer
is written greedily. Thinking that runs over its limit is closed, as one that the template begins is where none is
wanted.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

from arena.agents.encoders import THINK, THOUGHT, Encoder
from arena.agents.sampling import branch_seed
from arena.agents.types import Backend, Completion, Context, Message, SampleRequest
from arena.judges.forms import Ids
from arena.judges.orders import Order, state, told_speakers
from arena.protocols.errors import ConfigError
from arena.protocols.records import Sampling, VerdictStatus
from arena.protocols.stated import Stated, begins_answer, read_answer

__all__ = ["BRIEF", "CUE", "Parse", "Speaker", "Speech", "Spoken", "answer_parser", "hear", "seed_of"]

CUE = "Answer:"
"""How an answer begins, where nothing else is asked for."""

Parse = Callable[[str, bool, bool], Stated[Any]]
"""(text, led, cut) -> what it states; see `arena.protocols.stated.read_answer`."""

Result = TypeVar("Result")
Steps: TypeAlias = Generator[SampleRequest, Completion | None, Result]
"""Yields what to draw, is sent what was drawn."""

_GREEDY = Sampling(temperature=0.0)


@dataclass(frozen=True, slots=True)
class Speech:
    """How much a judge writes."""

    rationale: int = 0
    """Most tokens of visible reasoning before the answer."""
    reserve: int = 24
    """Most tokens of the answer after the cue."""
    thinking: int = 0
    """Most tokens of hidden thinking (``<think>``)."""
    temperature: float = 0.0
    """At which the rationale and the thinking are drawn; the answer is always the likeliest."""
    seed: int = 0
    """Of what is drawn; without effect at temperature 0."""

    def __post_init__(self) -> None:
        if self.reserve < 1 or self.rationale < 0 or self.thinking < 0:
            raise ConfigError(
                f"rationale={self.rationale}, reserve={self.reserve}, thinking={self.thinking}: "
                "the reserve takes 1 token or more, the others 0 or more"
            )

    @property
    def reasons(self) -> bool:
        """Whether anything comes before the answer."""
        return self.rationale > 0 or self.thinking > 0

    def check(self, *, writes: bool) -> None:
        """Refuse what has no effect.

        Args:
            writes: the judge writes at all.

        Raises:
            ConfigError: a value that changes nothing.
        """
        if self.temperature and not self.reasons:
            raise ConfigError(
                f"temperature={self.temperature:g} needs rationale=TOKENS or thinking=TOKENS: nothing else is drawn"
            )
        if self.reserve != type(self)().reserve and not writes:
            raise ConfigError(f"reserve={self.reserve} is for what the judge writes, and it writes nothing")

    @property
    def most(self) -> int:
        """Most tokens of all parts together."""
        return self.rationale + self.reserve + self.thinking


BRIEF = Speech()
"""The answer alone."""


@dataclass(frozen=True, slots=True)
class Rationale:
    """What was written before the answer."""

    start: Ids
    """The prompt and the thinking."""
    ids: Ids = ()
    """The visible part."""
    cut: bool = False
    """A limit ended it."""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was written on one prompt."""

    found: Stated[Any]
    text: str
    """All that is visible, the cue included where it was put there."""
    thinking: str
    before_answer: Ids
    """The prompt and what was written, up to where the answer begins, the cue included."""

    def told(self) -> dict[str, Any]:
        """As evidence has it."""
        told: dict[str, Any] = {"status": str(self.found.status), "text": self.text}
        if self.thinking:
            told["thinking"] = self.thinking
        if self.found.reason:
            told["reason"] = self.found.reason
        return told


class Speaker:
    """Prompts of a model that answers, as ids, and what it writes after them.

    Args:
        encoder: of the model.
        cue: words at the beginning of the answer; empty for none.
        speech: how much is written.
    """

    def __init__(self, encoder: Encoder, cue: str, speech: Speech = BRIEF) -> None:
        if encoder.one_token_turns and (speech.rationale or speech.thinking):
            raise ConfigError("rationale= and thinking= need a chat model; this one has a vocabulary of words")
        self.encoder = encoder
        self.cue = cue
        self.speech = speech
        context = Context()
        context.ids = [] if encoder.one_token_turns else encoder.extend(context, [Message("prompt", "?")])[0]
        self._opens = bool(context.ids) and encoder.opens_thinking(context)
        self._cue_ids = tuple(encoder.encode_turn(cue, end=False)) if cue else ()
        self._next_cue_ids = tuple(encoder.encode_turn(f"\n{cue}", end=False)) if cue else ()
        self._close_ids: Ids = () if encoder.one_token_turns else _control(encoder, f"\n{THOUGHT}\n\n")
        self._no_thinking_ids: Ids = () if encoder.one_token_turns else _control(encoder, f"{THINK}\n\n{THOUGHT}\n\n")

    def prompt(self, text: str) -> Ids:
        """Ids after which the answer is read: the prompt, the cue, and before it the end of a thinking that the chat
        template begins.

        Raises:
            ConfigError: the text cannot be encoded.
        """
        if self._opens:
            return self._opening(text) + self._close_ids + self._cue_ids
        messages = [Message("prompt", text)]
        if self.cue:
            messages.append(Message("cue", self.cue))
        return tuple(self.encoder.extend(Context(), messages)[0])

    def _opening(self, text: str) -> Ids:
        return tuple(self.encoder.extend(Context(), [Message("prompt", text)])[0])

    def longest(self, prompt: Ids) -> int:
        """Most tokens that a prompt and all that may be written after it take."""
        forced = len(self._next_cue_ids) + len(self._close_ids) + len(self._no_thinking_ids)
        return len(prompt) + self.speech.most + forced

    def speak(self, backend: Backend, asked: Sequence[tuple[str, int, Parse]]) -> list[Spoken]:
        """What is written on each (prompt, seed, parser), all of them in one batch; each depends on its own alone.

        Raises:
            BackendError: the model failed.
        """
        talks = [self._talk(*each) for each in asked]
        spoken: list[Spoken | None] = [None] * len(talks)
        answers: list[Completion | None] = [None] * len(talks)
        going = list(range(len(talks)))
        while going:
            requests: list[SampleRequest] = []
            on: list[int] = []
            for number in going:
                try:
                    requests.append(talks[number].send(answers[number]))
                    on.append(number)
                except StopIteration as end:
                    spoken[number] = end.value
            going = on
            if requests:
                for number, drawn in zip(going, backend.generate(requests), strict=True):
                    answers[number] = drawn
        return spoken  # type: ignore[return-value]  # every talk has ended

    def _talk(self, text: str, seed: int, parse: Parse) -> Steps[Spoken]:
        speech, encoder = self.speech, self.encoder
        rationale = Rationale(self.prompt(text))
        if speech.rationale or speech.thinking:
            rationale = yield from self._reason(text, seed)
        said = encoder.decode(rationale.ids)
        found = parse(said, True, rationale.cut)
        kept = self._without_answer(rationale.ids, said, found)
        before = rationale.start + kept
        if speech.rationale or speech.thinking:
            before += self._next_cue_ids if kept else self._cue_ids
        if found.value is not None or found.status is VerdictStatus.CONTRADICTORY:
            return Spoken(found, said, rationale.thinking, before)
        drawn = _drawn((yield SampleRequest(before, branch_seed(seed, 2), _GREEDY, speech.reserve)))
        tail = encoder.decode(self._body(drawn))
        visible = f"{encoder.decode(kept)}\n{self.cue} {tail}".strip()
        return Spoken(parse(tail, False, drawn.finish == "length"), visible, rationale.thinking, before)

    def _reason(self, text: str, seed: int) -> Steps[Rationale]:
        """Thinking and rationale."""
        speech, encoder = self.speech, self.encoder
        sampling = Sampling(temperature=speech.temperature)
        context = Context()
        start = tuple(encoder.extend(context, [Message("prompt", text)])[0])
        context.ids = list(start)
        closed = self._opens and not speech.thinking
        if closed:
            start += self._close_ids
        drawn = _drawn((yield SampleRequest(start, seed, sampling, speech.thinking + speech.rationale)))
        ids, ended = self._body(drawn), drawn.finish == "stop"
        thought = 0 if closed else encoder.thinking(context, ids)
        most = thought + speech.rationale
        if not thought or (thought <= speech.thinking and self._thought_ended(ids[:thought])):
            thinking = _bare(encoder.decode(ids[:thought]))
            return Rationale(start + ids[:thought], ids[thought:most], len(ids) > most or not ended, thinking)
        kept = ids[: speech.thinking]
        start += (kept + self._close_ids) if kept else self._no_thinking_ids
        thinking = _bare(encoder.decode(kept))
        if not speech.rationale:
            return Rationale(start, thinking=thinking)
        drawn = _drawn((yield SampleRequest(start, branch_seed(seed, 1), sampling, speech.rationale)))
        return Rationale(start, self._body(drawn), drawn.finish == "length", thinking)

    def _body(self, drawn: Completion) -> Ids:
        ids = drawn.ids
        return ids[:-1] if ids and ids[-1] in self.encoder.end_ids else ids

    def _thought_ended(self, ids: Ids) -> bool:
        # One id alone may be the tag, or end it.
        return THOUGHT in _with_controls(self.encoder, ids)

    def _without_answer(self, ids: Ids, said: str, found: Stated[Any]) -> Ids:
        """The ids before the line that states the answer; before the last one, if that only begins to."""
        lines = said.splitlines()
        if found.line is not None:
            first = found.line
        elif lines and begins_answer(lines[-1]):
            first = len(lines) - 1
        else:
            return ids
        length = len("\n".join(lines[:first]).rstrip())
        counts = range(len(ids) + 1)
        return ids[: bisect.bisect_left(counts, length, key=lambda count: len(self.encoder.decode(ids[:count])))]


def answer_parser(answers: Sequence[str], *, letters: bool) -> Parse:
    """Reads which of the answers, in presented order, a text states.

    Args:
        answers: their texts.
        letters: the judge is told to answer with a letter. Answers that are letters themselves are then undecidable.
    """
    if letters and any(len(answer.strip()) == 1 and answer.strip().isalpha() for answer in answers):
        reason = "may mean a letter or an answer, since the answers are letters themselves; use answer_by=text"
        return lambda text, led, cut: Stated(None, VerdictStatus.PARSE_ERROR, reason)
    return lambda text, led, cut: read_answer(text, answers, led=led, cut=cut)


def hear(
    orders: Sequence[Order], spoken: Sequence[Spoken], speakers: Sequence[Order] = ()
) -> tuple[Stated[int], dict[str, Any]]:
    """The answer (task order) that was stated in every order, and the evidence.

    Args:
        orders: as `arena.judges.orders.presentations` gives them.
        spoken: what was written on each.
        speakers: the order of speaking in each; absent: the given one.
    """
    said = state(orders, [one.found for one in spoken])
    told = []
    for number, (order, one) in enumerate(zip(orders, spoken, strict=True)):
        place = one.found.value
        shown = {"order": list(order), **told_speakers(speakers, number)}
        told.append({**shown, "answer": None if place is None else order[place], **one.told()})
    return said, {"status": str(said.status), "answer": said.value, "orders": told}


def seed_of(seed: int, key: str, text: str) -> int:
    """The seed of what is drawn on a prompt: of the judge's own seed, the episode and the prompt alone."""
    digest = blake2b("\0".join((str(seed), key, text)).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _drawn(answer: Completion | None) -> Completion:
    assert answer is not None  # None only begins a generator
    return answer


def _control(encoder: Encoder, text: str) -> Ids:
    """Ids of words of ours, control tokens as such."""
    tokenizer: Any = getattr(encoder, "tokenizer", None)
    if tokenizer is None:
        return tuple(encoder.encode_turn(text, end=False))
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def _with_controls(encoder: Encoder, ids: Ids) -> str:
    tokenizer: Any = getattr(encoder, "tokenizer", None)
    if tokenizer is None:
        return encoder.decode(ids)
    return str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def _bare(thinking: str) -> str:
    return thinking.strip().removeprefix(THINK).removesuffix(THOUGHT).strip()
