"""Training sequences: the token ledger of finished episodes, cut by role.

A sequence is the exact stream of ids that a role saw and wrote; text is never tokenised again. Only ids that the role
sampled itself are trained: prompts, opponents' turns and tool output are context.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, TokenSpan, Turn

__all__ = ["TrainingSequence", "ValueSignal", "sequences_of"]


@dataclass(frozen=True, slots=True)
class ValueSignal:
    """What a critic learns from (`arena.training.critic`): one entry for each trained token of a sequence."""

    values: list[float]
    """What the critic expected before the token, when the update began."""
    targets: list[float]
    """What it should have expected: advantage plus value."""
    to_go: list[float]
    """Discounted rewards from there on: what really came."""


@dataclass(slots=True)
class TrainingSequence:
    """One role's stream of tokens in one episode (or in the part of it since a fresh start, or a side branch)."""

    ids: list[int]
    """Every token id, prompts and samples, in order."""
    positions: list[int]
    """Places in ``ids`` of the tokens to train, ascending, each at least 1."""
    logps: list[float] | None
    """Log-prob in nats of each trained token under its sampler; None for demonstrations, which have no sampler."""
    turns: list[int]
    """For each trained token, which turn of its role in the episode it belongs to: ``episode.turns_of(role)[k]``."""
    role: str
    episode: str
    """Episode key."""
    prompt_length: int
    """Length of the first prompt."""
    advantages: list[float] = field(default_factory=list)
    """One for each trained token; filled by credit assignment."""
    group: str = ""
    """Rollouts of one group are compared with each other: the task id."""
    policy: str = ""
    """Name and version of the sampler: ``debater@v17``."""
    temperature: float = 1.0
    """The sampler's; the trainer's log-probs are taken at the same one."""
    allowed: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """For trained tokens by number: which ids each was drawn from, where it had to be one of some. The trainer's
    distributions are those over these ids."""
    side: bool = False
    """A side branch: the role's stream went on without it."""
    value: ValueSignal | None = None
    """For the critic, where credit rests on one; its advantages are those of these values."""

    def __len__(self) -> int:
        return len(self.ids)

    def turn_count(self) -> int:
        """Number of turns with trained tokens."""
        return len(set(self.turns))


Cuts: TypeAlias = dict[Hashable, list[TrainingSequence]]
"""The sequences of token spans that were cut before."""


def sequences_of(
    episode: Episode,
    roles: Collection[str],
    *,
    demonstrations: bool = False,
    train_thinking: bool = False,
    known: Cuts | None = None,
) -> list[TrainingSequence]:
    """Cut an episode into one training sequence for each role (more where a context started afresh).

    A side branch (a candidate that was not picked, an ephemeral turn) is a sequence of its own, and the role's stream
    goes on without it. A turn that sampled nothing adds context and trains nothing; a sequence that trains nothing is
    left out.

    Args:
        episode: finished or not; turns without a token ledger (scripted, failed) are skipped.
        roles: whose tokens are trained.
        demonstrations: accept turns without sampler log-probs, for supervised training; all log-probs are then dropped,
            and turns that were not kept are context only, since nobody should learn to say them.
        train_thinking: train hidden thinking too; else it is context.
        known: what was cut before, of other episodes of one step and with the same other arguments. Episodes that share
            token spans (`arena.games.GameSampler`) then share the lists of their sequences, which nobody may change.

    Raises:
        ConfigError: a sampled token has no log-prob, no context before it, or was drawn from a truncated distribution.
    """
    if known is None:
        return _cut(episode, roles, demonstrations, train_thinking)
    key = (episode.task, *[(turn.role, id(turn.tokens), turn.kept) for turn in episode.turns if turn.role in roles])
    cut = known.get(key)
    if cut is None:
        cut = known[key] = _cut(episode, roles, demonstrations, train_thinking)
        return cut
    return [
        TrainingSequence(
            s.ids, s.positions, s.logps, s.turns, s.role, episode.key, s.prompt_length, [], s.group, s.policy,
            s.temperature, s.allowed, s.side,
        )
        for s in cut
    ]  # fmt: skip


def _cut(
    episode: Episode, roles: Collection[str], demonstrations: bool, train_thinking: bool
) -> list[TrainingSequence]:
    found: list[TrainingSequence] = []
    current: dict[str, TrainingSequence] = {}
    ordinals: dict[str, int] = {}
    for turn in episode.turns:
        role = turn.role
        if role not in roles:
            continue
        ordinal = ordinals[role] = ordinals.get(role, -1) + 1
        span = turn.tokens
        if span is None:
            continue
        sequence = current.get(role)
        if sequence is None or span.fresh or span.side:
            sequence = _begin(episode, role, span, demonstrations)
            found.append(sequence)
            if not span.side:
                current[role] = sequence
        trained = turn.kept or not demonstrations
        _extend(sequence, episode, turn, ordinal, first=(0 if train_thinking else span.thinking) if trained else None)
    return [sequence for sequence in found if sequence.positions]


def _begin(episode: Episode, role: str, span: TokenSpan, demonstrations: bool) -> TrainingSequence:
    return TrainingSequence(
        ids=[],
        positions=[],
        logps=None if demonstrations else [],
        turns=[],
        role=role,
        episode=episode.key,
        prompt_length=len(span.prompt),
        group=episode.task,
        policy=span.policy,
        temperature=span.sampling.temperature,
        side=span.side,
    )


def _extend(sequence: TrainingSequence, episode: Episode, turn: Turn, ordinal: int, *, first: int | None) -> None:
    """Append a turn to the stream of its role; its tokens are trained from number ``first`` on."""
    span, ids = turn.tokens, sequence.ids
    assert span is not None
    ids.extend(span.prompt)
    if not span.ids:
        return
    if not ids:
        raise ConfigError(f"{_place(episode, turn)}: its first token has no context; begin the prompt with a token")
    start = len(ids)
    ids.extend(span.ids)
    if first is None:
        return
    # A token without an alternative has nothing to learn: it is context.
    own = [n for n in range(first, len(span.ids)) if span.allowed is None or len(span.allowed[n]) > 1]
    if sequence.logps is not None:
        _add_logps(sequence, episode, turn, own)
        if span.allowed is not None:
            numbers = range(len(sequence.positions), len(sequence.positions) + len(own))
            sequence.allowed.update(zip(numbers, (span.allowed[n] for n in own), strict=True))
    sequence.positions.extend([start + n for n in own])
    sequence.turns.extend([ordinal] * len(own))


def _add_logps(sequence: TrainingSequence, episode: Episode, turn: Turn, own: Sequence[int]) -> None:
    span = turn.tokens
    assert span is not None
    assert sequence.logps is not None
    sampling = span.sampling
    if span.logps is None or len(span.logps) != len(span.ids):
        have = "no" if span.logps is None else str(len(span.logps))
        raise ConfigError(
            f"{_place(episode, turn)}: {len(span.ids)} sampled tokens but {have} log-probs; "
            "sample with a model backend, or pass demonstrations=True to imitate them"
        )
    if sampling.top_p < 1.0 or sampling.top_k > 0 or sampling.temperature <= 0.0:
        raise ConfigError(
            f"{_place(episode, turn)}: sampled with temperature {sampling.temperature:g}, top_p {sampling.top_p:g}, "
            f"top_k {sampling.top_k}; policy gradients need the full distribution: temperature > 0, top_p 1, top_k 0"
        )
    if sampling.temperature != sequence.temperature:
        raise ConfigError(
            f"{_place(episode, turn)}: temperature changes from {sequence.temperature:g} to {sampling.temperature:g}; "
            "keep one temperature for a role"
        )
    sequence.logps.extend([span.logps[n] for n in own])


def _place(episode: Episode, turn: Turn) -> str:
    return f"episode '{episode.key}', turn {turn.index} of '{turn.role}'"


def missing_logps(sequences: Sequence[TrainingSequence]) -> str | None:
    """The first sequence without a sampler log-prob for each trained token, in words; None if there is none."""
    for sequence in sequences:
        if sequence.logps is None or len(sequence.logps) != len(sequence.positions):
            have = "no" if sequence.logps is None else str(len(sequence.logps))
            return (
                f"'{sequence.role}' in episode '{sequence.episode}' has {len(sequence.positions)} tokens to train but "
                f"{have} log-probs: sample them with a model backend"
            )
    return None


def missing_advantages(sequences: Sequence[TrainingSequence]) -> str | None:
    """The first sequence without an advantage for each trained token, in words; None if there is none."""
    for sequence in sequences:
        if len(sequence.advantages) != len(sequence.positions):
            return (
                f"'{sequence.role}' in episode '{sequence.episode}' has {len(sequence.positions)} tokens to train but "
                f"{len(sequence.advantages)} advantages: assign them first"
            )
    return None
