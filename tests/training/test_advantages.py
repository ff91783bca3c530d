"""Credit: who is compared with whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.protocols.errors import ConfigError, NumericalError
from arena.training.advantages import assign_advantages, credit, group_advantages
from arena.training.sequences import TrainingSequence

rewards = st.floats(-10, 10, allow_nan=False, width=32)
items = st.lists(st.tuples(rewards, st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=30)


@given(items, st.randoms(use_true_random=False), st.sampled_from(["batch", "none"]))
def test_the_order_of_the_batch_changes_no_bit(batch, random, scale):
    returns = np.asarray([reward for reward, *_ in batch])
    keys = [tuple(key) for _, *key in batch]
    order = list(range(len(batch)))
    random.shuffle(order)
    shuffled = credit(returns[order], [keys[i] for i in order], scale=scale)
    assert shuffled.tolist() == credit(returns, keys, scale=scale)[order].tolist()


@given(items, st.integers(-50, 50))
def test_a_reward_offset_of_one_role_moves_nobody(batch, offset):
    # Eighths are exact in binary, so that only the algebra is tested.
    returns = np.round(np.asarray([r for r, *_ in batch]) * 8) / 8
    keys = [tuple(key) for _, *key in batch]
    moved = returns + np.asarray([offset if key[0] == "a" else 0 for key in keys])
    np.testing.assert_allclose(credit(moved, keys), credit(returns, keys), atol=1e-9)


@given(rewards, st.integers(1, 9), st.sampled_from(["batch", "none"]), st.sampled_from(["group", "leave_one_out"]))
def test_constant_groups_and_singletons_are_exactly_zero(reward, size, scale, baseline):
    # 0.1 summed three times and divided by three is not 0.1.
    returns, keys = [reward + 0.1] * size + [3.0, 1.0], ["same"] * size + ["x", "y"]
    assert (credit(returns, keys, scale=scale, baseline=baseline) == 0.0).all()
    assert (group_advantages(returns, keys) == 0.0).all()


def test_values_by_hand():
    # Groups a: 1, 3 (mean 2) and b: 0, 4 (mean 2): centred -1 1 -2 2, deviation sqrt(2.5).
    got = credit([1.0, 3.0, 0.0, 4.0], ["a", "a", "b", "b"])
    np.testing.assert_allclose(got, np.asarray([-1, 1, -2, 2]) / np.sqrt(2.5))
    np.testing.assert_allclose(credit([1.0, 3.0], ["a", "a"], baseline="leave_one_out", scale="none"), [-2, 2])
    np.testing.assert_allclose(credit([1.0, 3.0], ["a", "b"], baseline="none", scale="none"), [1, 3])


def test_a_score_of_zero_is_a_score():
    assert credit([0.0, 1.0], ["a", "a"], scale="none").tolist() == [-0.5, 0.5]


def test_bad_input_is_named():
    with pytest.raises(NumericalError, match=r"reward nan at index 1 \(group 'b'\)"):
        credit([0.0, float("nan")], ["a", "b"])
    with pytest.raises(ConfigError, match="one key for each value"):
        credit([0.0], ["a", "b"])
    with pytest.raises(ConfigError, match="There is: batch"):
        credit([0.0], ["a"], scale="std")


def test_every_token_gets_the_advantage_of_its_turn():
    sequence = TrainingSequence([1, 2, 3, 4], [1, 2, 3], [0.0] * 3, [0, 0, 2], "pro", "e", 1)
    assign_advantages([sequence], {("e", "pro", 0): 0.0, ("e", "pro", 2): -1.5})
    assert sequence.advantages == [0.0, 0.0, -1.5]
    with pytest.raises(ConfigError, match=r"no advantage for .*\('e', 'pro', 0\)"):
        assign_advantages([sequence], {("e", "con", 0): 1.0})
