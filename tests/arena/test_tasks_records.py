"""Records of which some are cancelled, and who shows how they are quoted and struck."""

from __future__ import annotations

import pytest

from arena.agents import AGENTS
from arena.engine import Engine, Plan
from arena.judges.exact import MatchJudge
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode
from arena.tasks import open_tasks


def sums(words: tuple[str, ...]) -> dict[str, int]:
    return {who: sum(int(word[-1]) for word in words if word.startswith(who)) for who in ("ann", "bob")}


def test_the_label_is_who_gained_more_of_what_counts() -> None:
    tasks = open_tasks("records:train=100,test=50", seed=2)
    assert len({task.fields["evidence"] for task in (*tasks.train, *tasks.test)}) == 150
    for task in (*tasks.train, *tasks.test):
        valid, void, evidence = (task.fields[name] for name in ("valid", "cancelled", "evidence"))
        assert sorted(evidence) == sorted([*valid, *void])
        assert (len(valid), len(void)) == (8, 4)
        assert all("+" in word for word in valid)
        assert all("~" in word for word in void)
        assert len({(word[:3], word[-1]) for word in evidence}) == 12
        gains = sums(valid)
        assert gains[task.answers[task.label or 0]] > gains[task.answers[1 - (task.label or 0)]]


def test_hard_questions_tempt_who_does_not_look_at_the_marks() -> None:
    for task in open_tasks("records:train=60,test=1,hard=1", seed=0).train:
        right, wrong = task.answers[task.label or 0], task.answers[1 - (task.label or 0)]
        void, gains = sums(task.fields["cancelled"]), sums(task.fields["valid"])
        best = sorted(int(word[-1]) for word in task.fields["evidence"] if word.startswith(right))[-2:]
        assert void[wrong] > sum(best)
        assert gains[right] - gains[wrong] >= 2


def test_a_seed_makes_the_same_tasks() -> None:
    one, more = open_tasks("records:train=20,test=10", seed=3), open_tasks("records:train=40,test=10", seed=3)
    assert [task.fields for task in one.test] == [task.fields for task in more.test]
    with pytest.raises(ConfigError, match="of records is a share: from 0 to 1"):
        open_tasks("records:hard=2")


def play(protocol: str, **options: float) -> list[Episode]:
    tasks = open_tasks("records:train=1,test=300", seed=1)
    agent = AGENTS.build({"kind": "records-demonstrator", **options}, tasks=tasks, judge=None, seed=0)
    game = load_protocol(protocol)
    plans = [Plan(task.id, task, dict.fromkeys(game.speakers, agent)) for task in tasks.test]
    return Engine(game, MatchJudge(), seed=4, judging=False).play(plans)


@pytest.mark.parametrize("protocol", ["cross-examination", "evidence-open-debate", "evidence-open-consultancy"])
def test_the_demonstrator_quotes_new_records_of_whom_it_argues_for(protocol: str) -> None:
    tasks = {task.id: task for task in open_tasks("records:train=1,test=300", seed=1).test}
    for episode in play(protocol):
        assert episode.error is None
        for turn in episode.turns:
            assert all(quote.good for quote in turn.quotes)
            if turn.quotes:
                assert turn.text.startswith(tasks[episode.task].answers[turn.answer or 0])


def test_the_demonstrator_errs_as_often_as_it_is_told_to() -> None:
    labels = {task.id: task.label for task in open_tasks("records:train=1,test=300", seed=1).test}
    episodes = play("cross-examination", true=0.9, void=0.2, strike=0.75)
    claims = [turn.answer == labels[e.task] for e in episodes for turn in e.turns if turn.node == "claim"]
    quotes = ["~" in turn.text for e in episodes for turn in e.turns if turn.quotes]
    right = []
    for episode in episodes:
        for turn in episode.turns:
            if turn.node.startswith("strike"):
                struck = next(t for t in reversed(episode.turns[: turn.index]) if t.quotes)
                right.append(("~" in struck.text) == (turn.text == "strike"))
    # Four standard errors of a share of 300, or of 1,200.
    assert sum(claims) / len(claims) == pytest.approx(0.9, abs=0.07)
    assert sum(quotes) / len(quotes) == pytest.approx(0.2, abs=0.046)
    assert sum(right) / len(right) == pytest.approx(0.75, abs=0.05)


def test_a_clerk_rules_on_what_is_struck_only() -> None:
    for episode in play("cross-examination", strike=0.5):
        turns = episode.turns
        for turn in turns:
            follows = turns[turn.index + 1].node.startswith("ruling") if turn.index + 1 < len(turns) else False
            assert follows == (turn.node.startswith("strike") and turn.text == "strike")
            if turn.node.startswith("ruling"):
                assert turn.text == ("struck" if "~" in turns[turn.index - 2].text else "stands")
