"""Credit of turns by the rule of their role, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from arena.protocols.records import Episode, Turn
from arena.rewards import Payoff
from arena.training.crediting import Crediting, PaidTurn, paid_turns
from arena.training.selfplay_config import CreditConfig, SelfPlayRecipe
from arena.training.sequences import TrainingSequence


def turn(episode: str, role: str, number: int, reward: float, *, task: int = 0, node: str = "say") -> PaidTurn:
    facts = {"task": task, "role": role, "node": node, "visit": number, "attempt": 0, "answer": None}
    return PaidTurn((episode, role, number), role, reward, facts)


def crediting(**config: object) -> Crediting:
    return Crediting(CreditConfig.model_validate(config), {"a": "a", "b": "b", "c-1": "c", "c-2": "c"})


def values(found: dict[tuple[str, str, int], float]) -> list[float]:
    return [pytest.approx(value) for value in found.values()]


def test_a_turn_is_compared_with_the_same_move_of_its_task() -> None:
    turns = [
        turn("x", "a", 0, 1.0),
        turn("y", "a", 0, 0.0),
        turn("z", "a", 0, 5.0, task=1),
        turn("w", "a", 0, 7.0, task=1),
    ]
    assert values(crediting(scale="none")(turns, [])) == [0.5, -0.5, -1.0, 1.0]
    # Divided by the deviation of the batch: sqrt((.25 + .25 + 1 + 1) / 4).
    assert values(crediting()(turns, [])) == [each / math.sqrt(0.625) for each in (0.5, -0.5, -1.0, 1.0)]


def test_a_reward_offset_of_one_role_moves_no_other() -> None:
    turns = [turn(e, r, 0, float(v)) for e, r, v in [("x", "a", 1), ("y", "a", 0), ("x", "b", 3), ("y", "b", 9)]]
    shifted = [PaidTurn(t.place, t.role, t.reward + 100 * (t.role == "b"), t.facts) for t in turns]
    assert values(crediting()(turns, [])) == list(crediting()(shifted, []).values())


def test_estimators_by_hand() -> None:
    turns = [turn("x", "a", 0, 1.0), turn("y", "a", 0, 0.0), turn("z", "a", 0, 0.0)]
    assert values(crediting(estimator="leave_one_out", scale="none")(turns, [])) == [1.0, -0.5, -0.5]
    assert values(crediting(estimator="none", scale="none")(turns, [])) == [1.0, 0.0, 0.0]
    deviation = math.sqrt(((2 / 3) ** 2 + 2 * (1 / 3) ** 2) / 2) + 1e-4  # of the sample, as GRPO's code has it
    assert values(crediting(estimator="grpo")(turns, [])) == [2 / 3 / deviation, -1 / 3 / deviation, -1 / 3 / deviation]


def test_a_running_mean_starts_at_the_first_rewards_and_moves_once_a_step() -> None:
    made = crediting(estimator="rae", decay=0.5, scale="none", key=["role"])
    assert values(made([turn("x", "a", 0, 1.0), turn("y", "a", 0, 3.0)], [])) == [-1.0, 1.0]
    assert values(made([turn("x", "a", 0, 4.0), turn("y", "a", 0, 6.0)], [])) == [2.0, 4.0]
    # The mean is .5 * 2 + .5 * 5 = 3.5 now, also after a resume.
    resumed = crediting(estimator="rae", decay=0.5, scale="none", key=["role"])
    resumed.load_state_dict(made.state_dict())
    assert values(resumed([turn("x", "a", 0, 3.5)], [])) == [0.0]


def test_returns_to_go_follow_the_role_through_the_episode() -> None:
    turns = [turn("x", "a", 0, 1.0), turn("x", "b", 0, 50.0), turn("x", "a", 1, 2.0), turn("x", "a", 2, 4.0)]
    found = crediting(returns="to_go", discount=0.5, estimator="none", scale="none")(turns, [])
    assert values(found) == [1 + 0.5 * (2 + 0.5 * 4), 50.0, 2 + 0.5 * 4, 4.0]


def test_roles_and_counted_roles_have_rules_of_their_own() -> None:
    rules = {"b": {"estimator": "none", "scale": "none", "weight": 0.3}, "c": {"estimator": "none", "scale": "none"}}
    turns = [turn("x", r, 0, 2.0) for r in ("a", "b", "c-1", "c-2")] + [turn("y", "a", 0, 0.0)]
    assert values(crediting(scale="none", roles=rules)(turns, [])) == [1.0, 0.6, 2.0, 2.0, -1.0]
    # Rules that say the same still do not pool the deviation of their roles.
    same = {"a": {}, "b": {}}
    turns = [turn(e, r, 0, v) for e, r, v in [("x", "a", 1.0), ("y", "a", -1.0), ("x", "b", 10.0), ("y", "b", -10.0)]]
    assert values(crediting(roles=same)(turns, [])) == [1.0, -1.0, 1.0, -1.0]


def test_equal_prompts_are_compared_across_tasks() -> None:
    def said(episode: str, *ids: int) -> TrainingSequence:
        return TrainingSequence([*ids, 9], [len(ids)], [0.0], [0], "a", episode, len(ids))

    sequences = [said("x", 1, 2), said("y", 1, 2), said("z", 1, 3)]
    turns = [turn("x", "a", 0, 1.0, task=0), turn("y", "a", 0, 0.0, task=1), turn("z", "a", 0, 4.0, task=2)]
    assert values(crediting(key=["prompt"], scale="none")(turns, sequences)) == [0.5, -0.5, 0.0]


def test_the_order_of_the_batch_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    turns = [turn(f"e{i}", "ab"[i % 2], 0, float(rng.normal()), task=i % 3) for i in range(30)]
    found = crediting()(turns, [])
    again = crediting()([turns[i] for i in rng.permutation(30)], [])
    assert found == again


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"key": []}, "each once"),
        ({"key": ["role", "role"]}, "each once"),
        ({"key": ["turn"]}, "Input should be"),
        ({"estimator": "rae"}, "no task or prompt lasts"),
        ({"weight": -1}, "greater than or equal to 0"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(config: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        CreditConfig.model_validate(config)


def test_one_episode_a_task_cannot_be_compared_inside_of_it() -> None:
    with pytest.raises(ValidationError, match="nothing to be compared with"):
        SelfPlayRecipe.model_validate({"learner": {}, "group": 1})
    SelfPlayRecipe.model_validate({"learner": {}, "group": 1, "credit": {"key": ["prompt"]}})


def test_claims_are_compared_over_all_answers_and_later_moves_for_the_same_answer() -> None:
    turns = [Turn(0, 0, "claim", "a", 0, "x", 1, "bob"), Turn(1, 1, "quote", "a", 0, "x", 1, "bob+9")]
    episode = Episode("e", "game", "task", {}, (1, 0), turns)
    found = paid_turns([episode], [Payoff([1.0, 1.0], None)], [0], [frozenset("a")], ["a", "b"], {"claim"})
    assert [turn.facts["answer"] for turn in found] == [None, 1]
