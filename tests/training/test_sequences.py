"""The token ledger becomes training sequences."""

import pytest

from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Sampling, TokenSpan, Turn
from arena.training.sequences import Cuts, sequences_of


def turn(index, role, prompt, ids, *, logps="auto", fresh=False, sampling=None):
    logps = tuple(-0.1 * i for i in ids) if logps == "auto" else logps
    span = TokenSpan(tuple(prompt), tuple(ids), logps, "debater@v3", sampling or Sampling(), fresh)
    return Turn(index, index, "speak", role, 0, "debater", None, "", tokens=span)


def episode(*turns):
    return Episode("e1", "debate", "task-7", {}, (0, 1), list(turns))


def test_a_sequence_is_the_exact_stream_of_its_role():
    made = sequences_of(
        episode(
            turn(0, "a", [1, 2], [3, 4]),
            turn(1, "b", [1, 9, 3, 4], [7]),
            turn(2, "a", [7, 5], [6]),
            turn(3, "b", [6], [8]),
        ),
        {"a", "b"},
    )
    a, b = made
    assert (a.ids, a.positions, a.turns) == ([1, 2, 3, 4, 7, 5, 6], [2, 3, 6], [0, 0, 1])
    assert a.logps == pytest.approx([-0.3, -0.4, -0.6])
    assert (b.ids, b.positions, b.turns) == ([1, 9, 3, 4, 7, 6, 8], [4, 6], [0, 1])
    assert (a.prompt_length, b.prompt_length, a.group, a.policy) == (2, 4, "task-7", "debater@v3")


def test_only_the_roles_asked_for():
    made = sequences_of(episode(turn(0, "a", [1], [2]), turn(1, "b", [1], [2])), {"b"})
    assert [sequence.role for sequence in made] == ["b"]


def test_a_fresh_context_starts_another_sequence_and_turns_count_on():
    first, second = sequences_of(episode(turn(0, "a", [1], [2]), turn(1, "a", [5, 6], [7], fresh=True)), {"a"})
    assert (first.ids, first.turns) == ([1, 2], [0])
    assert (second.ids, second.positions, second.turns, second.prompt_length) == ([5, 6, 7], [2], [1], 2)


def test_an_empty_turn_trains_nothing_but_stays_context():
    (made,) = sequences_of(episode(turn(0, "a", [1, 2], [], logps=None), turn(1, "a", [3], [4])), {"a"})
    assert (made.ids, made.positions, made.turns) == ([1, 2, 3, 4], [3], [1])
    assert sequences_of(episode(turn(0, "a", [1, 2], [], logps=())), {"a"}) == []


def test_turns_without_a_ledger_are_counted_and_skipped():
    silent = Turn(0, 0, "speak", "a", 0, "script", None, "hello")
    (made,) = sequences_of(episode(silent, turn(1, "a", [1], [2])), {"a"})
    assert made.turns == [1]


@pytest.mark.parametrize("logps", [None, (-0.5,)])
def test_a_missing_log_prob_raises_unless_it_is_a_demonstration(logps):
    broken = episode(turn(0, "a", [1], [2, 3], logps=logps))
    with pytest.raises(ConfigError, match="episode 'e1', turn 0 of 'a': 2 sampled tokens but"):
        sequences_of(broken, {"a"})
    (made,) = sequences_of(broken, {"a"}, demonstrations=True)
    assert made.logps is None
    assert made.positions == [1, 2]


@pytest.mark.parametrize("sampling", [Sampling(top_p=0.9), Sampling(top_k=5), Sampling(temperature=0.0)])
def test_a_truncated_distribution_cannot_be_trained_on(sampling):
    with pytest.raises(ConfigError, match="need the full distribution"):
        sequences_of(episode(turn(0, "a", [1], [2], sampling=sampling)), {"a"})


def test_a_first_token_without_context_is_refused():
    with pytest.raises(ConfigError, match="has no context"):
        sequences_of(episode(turn(0, "a", [], [2])), {"a"})


def test_a_side_branch_is_a_sequence_of_its_own_and_the_stream_goes_on_without_it():
    aside = turn(1, "a", [1, 2, 5], [6])
    aside.tokens.side = True
    stream, branch = sequences_of(episode(turn(0, "a", [1], [2]), aside, turn(2, "a", [7], [8])), {"a"})
    assert (stream.ids, stream.positions, stream.turns) == ([1, 2, 7, 8], [1, 3], [0, 2])
    assert (branch.ids, branch.positions, branch.turns, branch.prompt_length) == ([1, 2, 5, 6], [3], [1], 3)


def test_a_side_branch_may_come_before_the_stream():
    aside = turn(0, "a", [1, 5], [6])
    aside.tokens.side = True
    branch, stream = sequences_of(episode(aside, turn(1, "a", [1, 7], [8])), {"a"})
    assert (branch.ids, stream.ids, stream.turns) == ([1, 5, 6], [1, 7, 8], [1])


def test_nobody_is_taught_what_was_not_kept():
    failed = turn(0, "a", [1], [2])
    failed.kept = False
    (made,) = sequences_of(episode(failed, turn(1, "a", [3], [4])), {"a"}, demonstrations=True)
    assert (made.ids, made.positions, made.turns) == ([1, 2, 3, 4], [3], [1])
    (sampled,) = sequences_of(episode(failed, turn(1, "a", [3], [4])), {"a"})  # its reward decides
    assert sampled.positions == [1, 3]


def test_hidden_thinking_is_context_unless_it_is_to_be_trained():
    thoughtful = turn(1, "a", [9], [3, 4, 5, 6])
    thoughtful.tokens.thinking = 2
    talk = episode(turn(0, "a", [1], [2]), thoughtful)
    (made,) = sequences_of(talk, {"a"})
    assert (made.ids, made.positions, made.turns) == ([1, 2, 9, 3, 4, 5, 6], [1, 5, 6], [0, 1, 1])
    assert made.logps == pytest.approx([-0.2, -0.5, -0.6])
    (made,) = sequences_of(talk, {"a"}, train_thinking=True)
    assert (made.positions, made.turns) == ([1, 3, 4, 5, 6], [0, 1, 1, 1, 1])


def test_a_token_that_was_drawn_from_some_says_so_and_a_certain_one_is_context():
    choice = turn(1, "a", [9], [3, 4, 6])
    choice.tokens.allowed = ((3, 7), (4,), (5, 6))
    talk = episode(turn(0, "a", [1], [2, 2]), choice, turn(2, "a", [9], [5]))
    (made,) = sequences_of(talk, {"a"})
    assert (made.ids, made.positions) == ([1, 2, 2, 9, 3, 4, 6, 9, 5], [1, 2, 4, 6, 8])
    assert made.allowed == {2: (3, 7), 3: (5, 6)}
    assert made.logps == pytest.approx([-0.2, -0.2, -0.3, -0.6, -0.5])
    (made,) = sequences_of(talk, {"a"}, demonstrations=True)
    assert (made.positions, made.allowed) == ([1, 2, 4, 6, 8], {})


def test_sequences_of_shared_spans_are_cut_once() -> None:
    """What `known` remembers changes nothing but the lists' identity."""
    span = TokenSpan((1, 2), (3, 4), (-0.5, -0.25), "p@v0", Sampling())
    other = TokenSpan((1, 2), (3, 4), (-0.5, -0.5), "p@v0", Sampling())
    episodes = [
        Episode(f"e{number}", "p", "t", {"a": "p"}, (), [Turn(0, 0, "n", "a", 0, "p", None, "x", tokens=tokens)])
        for number, tokens in enumerate([span, span, other])
    ]
    known: Cuts = {}
    found = [sequences_of(episode, {"a"}, known=known) for episode in episodes]
    assert found == [sequences_of(episode, {"a"}) for episode in episodes]
    assert [sequence.episode for (sequence,) in found] == ["e0", "e1", "e2"]
    assert found[0][0].ids is found[1][0].ids
    assert found[0][0].advantages is not found[1][0].advantages
    assert found[0][0].logps != found[2][0].logps
