"""The token ledger: what a role saw and wrote, exactly, with the branches that were not gone on with."""

from __future__ import annotations

from collections.abc import Sequence

from arena.agents import Completion, PolicyAgent, SampleRequest, ScoreRequest
from arena.agents.encoders import WordEncoder
from arena.engine import Engine, Plan
from arena.protocols import Protocol
from arena.protocols.errors import BackendError
from arena.protocols.records import Episode, Task
from arena.protocols.words import expand_words

WORDS = WordEncoder(
    expand_words("Q? Go. Think. a: b: x y z Your answer could not be read. Answer again, in this form.")
)
TASK = Task("t", {"question": "Q?"})


class Backend:
    """Draws the word that the seed says, and keeps every context that it was given."""

    policy = "p@v0"

    def __init__(self) -> None:
        self.contexts: list[tuple[int, ...]] = []

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.contexts += [tuple(request.ids) for request in requests]
        words = [WORDS.encode(["x", "y", "z"][request.seed % 3])[0] for request in requests]
        return [Completion((word,), (-0.5,), "length") for word in words]

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        raise BackendError("not used")


def play(protocol: Protocol, count: int = 8) -> tuple[list[Episode], Backend]:
    backend = Backend()
    agent = PolicyAgent("p", backend, WORDS, max_tokens=1)
    plans = [Plan(f"e{i}", TASK, dict.fromkeys(protocol.speakers, agent)) for i in range(count)]
    return Engine(protocol, {}, seed=1).play(plans), backend


def check_ledger(episode: Episode, role: str, backend: Backend) -> None:
    """Each drawn token follows a context that the backend was given, and the main line is the sum of its spans."""
    line: list[int] = []
    for turn in episode.turns_of(role):
        span = turn.tokens
        assert span is not None
        if span.side:
            assert span.prompt in backend.contexts
            assert span.prompt[: len(line)] == tuple(line) or not turn.kept
            continue
        line += span.prompt
        assert tuple(line) in backend.contexts
        line += span.ids
    assert line.count(WORDS.bos_id) == (1 if line else 0)


BEST = """
name: best
roles: {a: {sees: [question], opening: "{{ question }}"}, b: {sees: [question]}}
nodes:
  first: {speak: a, prompt: Go., best_of: {n: 3, value: "index"}, output: {choice: [x, y, z]}}
  reply: {speak: b}
  second: {speak: a, prompt: Go.}
edges: [start -> first -> reply -> second -> end]
"""


def test_a_lost_candidate_is_a_side_branch_and_the_winner_the_line_that_goes_on(compiled) -> None:
    episodes, backend = play(compiled(BEST))
    for episode in episodes:
        candidates = [turn for turn in episode.turns if turn.node == "first"]
        assert [turn.tokens.side for turn in candidates] == [not turn.kept for turn in candidates]
        opening = (WORDS.bos_id, *WORDS.encode("Q? Go."))
        assert {turn.tokens.prompt for turn in candidates} == {opening}
        check_ledger(episode, "a", backend)
        winner = next(turn for turn in candidates if turn.kept)
        second = episode.turns[-1]
        assert (*opening, *winner.tokens.ids, *second.tokens.prompt) in backend.contexts
    assert len({next(turn.sample for turn in episode.turns if turn.kept) for episode in episodes}) > 1


def test_a_best_of_after_other_turns_branches_from_what_was_said(compiled) -> None:
    text = BEST.replace("start -> first -> reply -> second -> end", "start -> second -> reply -> first -> end")
    episodes, backend = play(compiled(text))
    for episode in episodes:
        check_ledger(episode, "a", backend)
        said = episode.turns[0].tokens
        for turn in episode.turns[2:]:
            whole = (*said.prompt, *said.ids, *WORDS.encode("b: " + episode.turns[1].text + " Go."))
            assert turn.tokens.prompt == (whole if turn.tokens.side else whole[len(said.prompt) + 1 :])


EPHEMERAL = """
name: note
roles: {a: {sees: [question], opening: "{{ question }}"}, b: {sees: [question]}}
nodes:
  note: {speak: a, prompt: Think., to: nobody}
  say: {speak: a, prompt: Go.}
  reply: {speak: b}
edges:
  - start -> note -> say -> reply
  - {from: reply, to: note, times: 1}
  - reply -> end
"""


def test_an_ephemeral_turn_is_a_side_branch(compiled) -> None:
    episodes, backend = play(compiled(EPHEMERAL))
    for episode in episodes:
        notes = [turn for turn in episode.turns if turn.node == "note"]
        assert all(turn.tokens.side for turn in notes)
        assert notes[0].tokens.prompt == (WORDS.bos_id, *WORDS.encode("Q? Think."))
        said = next(turn for turn in episode.turns if turn.node == "say")
        assert said.tokens.prompt == (WORDS.bos_id, *WORDS.encode("Q? Go."))
        check_ledger(episode, "a", backend)


RETRIED = """
name: retried
roles: {a: {sees: [question]}}
nodes: {say: {speak: a, prompt: Go., output: {regex: "(?P<n>x)"}, retries: 3}}
edges: [start -> say -> end]
"""


def test_failed_attempts_stay_in_the_line_since_their_speaker_sees_them(compiled, monkeypatch) -> None:
    monkeypatch.setattr("arena.engine.speaking.read_output", lambda rule, text, options: _short(text))
    episodes, backend = play(compiled(RETRIED), 20)
    assert max(len(episode.turns) for episode in episodes) > 2
    for episode in episodes:
        assert not any(turn.tokens.side for turn in episode.turns)
        check_ledger(episode, "a", backend)


def _short(text: str) -> tuple[dict[str, str | None], str | None]:
    # The vocabulary of the test has no other words for the fault.
    return ({"n": "x"}, None) if text == "x" else ({"n": None}, "answer")


def test_a_candidate_keeps_its_own_count_of_attempts(compiled, monkeypatch) -> None:
    monkeypatch.setattr("arena.engine.speaking.read_output", lambda rule, text, options: _short(text))
    text = RETRIED.replace("retries: 3", "retries: 1, best_of: {n: 2, value: words}")
    episodes, backend = play(compiled(text), 30)
    for episode in episodes:
        check_ledger(episode, "a", backend)
        chosen = next(turn.sample for turn in episode.turns if turn.kept)
        assert all(turn.tokens.side == (turn.sample != chosen) for turn in episode.turns)
        order = [(turn.sample, turn.attempt) for turn in episode.turns]
        assert order == sorted(order)
