"""Expected gradients by enumeration: what each objective really climbs, on policies over all sequences of two tokens.

The policy is a table: three first tokens, and three second ones after each. With probabilities from the table every
expectation is a finite sum, so that an objective's expected gradient can be compared with autograd of what it should
be: the expected reward, or a divergence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from arena.training.advantages import group_advantages
from arena.training.objectives import Estimator
from arena.training.objectives.importance import sampler_weights
from arena.training.objectives.kl import exact_kl, kl_per_token
from arena.training.objectives.policy_gradient import policy_loss, ppo_policy, score_loss
from arena.training.objectives.reinforce import cot_ro, hrl_tar, reinforce, reinforce_pp, rloo
from arena.training.returns import RoleBaseline, kl_in_reward

V = 3
SEQUENCES = torch.tensor(list(itertools.product(range(V), repeat=2)))
"""(9, 2): every sequence."""
ALL = torch.ones(len(SEQUENCES), 2)
GENERATOR = torch.Generator().manual_seed(0)
REWARDS = torch.randn(len(SEQUENCES), generator=GENERATOR, dtype=torch.float64)
STEP_REWARDS = torch.randn(V + V * V, generator=GENERATOR, dtype=torch.float64)
"""Of each first token, then of each sequence's second token."""
THETA = torch.randn(V + V * V, generator=GENERATOR, dtype=torch.float64)
OTHER = torch.randn(V + V * V, generator=GENERATOR, dtype=torch.float64)


def token_logps(theta: Tensor) -> Tensor:
    """(9, 2) log-probs of both tokens of every sequence."""
    first = torch.log_softmax(theta[:V], 0)
    second = torch.log_softmax(theta[V:].reshape(V, V), 1)
    return torch.stack([first[SEQUENCES[:, 0]], second[SEQUENCES[:, 0], SEQUENCES[:, 1]]], 1)


def chances(theta: Tensor) -> Tensor:
    """(9,) probability of every sequence."""
    return token_logps(theta).sum(1).exp()


def gradient(function: Callable[[Tensor], Tensor], theta: Tensor = THETA) -> Tensor:
    leaf = theta.clone().requires_grad_()
    (found,) = torch.autograd.grad(function(leaf), leaf)
    return found


def expected(loss: Callable[[Tensor, Any], Tensor], theta: Tensor = THETA, draws: Tensor | None = None) -> Tensor:
    """Expected gradient of ``loss(logps (1, 2), index)`` over sequences drawn from the policy itself, or by draws."""
    weights = chances(theta) if draws is None else draws
    return sum(
        (weight * gradient(lambda t, row=row: loss(token_logps(t)[row : row + 1], row), theta))  # type: ignore[misc]
        for row, weight in enumerate(weights.tolist())
    )  # type: ignore[return-value]


def of_reward(theta: Tensor = THETA) -> Tensor:
    """The gradient of the expected reward."""
    return gradient(lambda t: (chances(t) * REWARDS).sum(), theta)


def assert_close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def old() -> Tensor:
    return token_logps(THETA)


def ppo(index: int, logps: Tensor, advantage: float, **options: Any) -> Tensor:
    advantages = torch.tensor([advantage], dtype=torch.float64)
    loss: Tensor = ppo_policy(logps, old()[index : index + 1], advantages, ALL[:1], **options)["loss"]
    return loss


# -- the expected reward


@pytest.mark.parametrize("baseline", [0.0, 0.7, -3.0])
def test_reinforce_climbs_the_expected_reward_whatever_its_baseline(baseline: float) -> None:
    got = expected(lambda logps, row: reinforce(logps, REWARDS[row : row + 1], ALL[:1], baseline=baseline))
    assert_close(got, -of_reward())


def test_the_score_surrogate_is_reinforce() -> None:
    def loss(logps: Tensor, row: int) -> Tensor:
        return score_loss(logps, old()[row : row + 1], REWARDS[row : row + 1, None], ALL[:1]).loss_BT.sum()

    assert_close(expected(loss), -of_reward())


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({"agg": "seq_mean_token_sum"}, 1.0),
        ({"agg": "token_sum"}, 1.0),
        ({"agg": "token_mean"}, 0.5),
        ({"agg": "seq_mean_token_mean"}, 0.5),
        ({"agg": "group_token_mean"}, 0.5),
        ({"agg": "seq_mean_token_sum_norm", "norm_const": 4.0}, 0.25),
        ({"agg": "token_mean", "clip_high": 0.28}, 0.5),
        ({"agg": "token_mean", "dual_clip": 3.0}, 0.5),
        ({"agg": "seq_mean_token_mean", "level": "sequence"}, 0.5),
        ({"agg": "seq_mean_token_mean", "level": "sequence_sum"}, 1.0),
    ],
)
def test_on_policy_every_clipped_surrogate_is_the_policy_gradient(options: dict[str, Any], share: float) -> None:
    """PPO, GRPO, Dr. GRPO, DAPO and GSPO at ratio 1, up to the constant of their average."""
    got = expected(lambda logps, row: ppo(row, logps, float(REWARDS[row]) - 0.3, **options))
    assert_close(got, -share * of_reward())


@pytest.mark.parametrize("level", ["token", "sequence", "sequence_sum"])
def test_on_policy_ratios_are_one_and_nothing_is_clipped(level: Any) -> None:
    found = policy_loss(old(), old(), REWARDS[:, None].expand(-1, 2), ALL, level=level)
    assert (found.log_ratio_BT == 0).all()
    assert not found.clipped_BT.any()
    assert_close(found.loss_BT, -REWARDS[:, None].expand(-1, 2))
    for estimator in get_args(Estimator):
        assert (kl_per_token(old(), old(), estimator=estimator) == 0).all()


def test_off_policy_ratios_of_whole_sequences_correct_exactly() -> None:
    """One ratio a row (`sequence_sum`), never clipped, gives the gradient at theta from draws of another policy."""
    drawn = token_logps(OTHER)

    def loss(logps: Tensor, row: int) -> Tensor:
        advantages, behaviour = REWARDS[row : row + 1], drawn[row : row + 1]
        found: Tensor = ppo_policy(
            logps, behaviour, advantages, ALL[:1], level="sequence_sum", agg="seq_mean_token_mean", clip_low=1.0,
            clip_high=1e9,
        )["loss"]  # fmt: skip
        return found

    assert_close(expected(loss, draws=chances(OTHER)), -of_reward())


def test_weights_of_a_sampler_that_is_not_quite_the_trainer_correct_exactly() -> None:
    drawn = token_logps(OTHER)

    def loss(logps: Tensor, row: int) -> Tensor:
        one = slice(row, row + 1)
        weights = sampler_weights(old()[one], drawn[one], ALL[:1], cap=1e9, level="sequence")
        found: Tensor = ppo_policy(
            logps, old()[one], REWARDS[one], ALL[:1], agg="seq_mean_token_sum", importance_BT=weights
        )["loss"]
        return found

    assert_close(expected(loss, draws=chances(OTHER)), -of_reward())


# -- groups of two


def over_pairs(loss: Callable[[Tensor, list[int]], Tensor]) -> Tensor:
    """Expected gradient over two independent draws."""
    p = chances(THETA)
    total = torch.zeros_like(THETA)
    for pair in itertools.product(range(len(SEQUENCES)), repeat=2):
        rows = list(pair)
        total += float(p[rows].prod()) * gradient(lambda t, rows=rows: loss(token_logps(t)[rows], rows))  # type: ignore[misc]
    return total


def grouped(logps: Tensor, rows: list[int], **options: Any) -> Tensor:
    advantages = torch.from_numpy(group_advantages(REWARDS[rows].tolist(), ["q", "q"], **options))
    loss: Tensor = ppo_policy(logps, old()[rows], advantages, ALL[:2], agg="seq_mean_token_sum")["loss"]
    return loss


@pytest.mark.parametrize("form", ["reinforce", "clipped_sequence"])
def test_leaving_one_out_is_unbiased(form: Any) -> None:
    got = over_pairs(
        lambda logps, rows: rloo(
            logps,
            old()[rows],
            REWARDS[rows].tolist(),
            ["q", "q"],
            ALL[:2],
            form=form,
        )["loss"]
    )
    assert_close(got, -of_reward())


def test_the_mean_of_the_group_shrinks_the_gradient_by_its_own_share() -> None:
    """A group of G that holds its own member in the mean: (1 - 1/G) of the gradient (Dr. GRPO's baseline)."""
    assert_close(over_pairs(lambda logps, rows: grouped(logps, rows, kind="dr_grpo")), -0.5 * of_reward())


def test_dividing_by_the_deviation_of_the_group_climbs_another_hill() -> None:
    """GRPO in pairs: only who won counts, so it climbs the chance to beat oneself, not the reward."""
    wins = torch.sign(REWARDS[:, None] - REWARDS[None, :])
    beaten = (wins * chances(THETA)[None, :]).sum(1)
    want = -gradient(lambda t: (chances(t) * beaten).sum()) / math.sqrt(2)
    got = over_pairs(lambda logps, rows: grouped(logps, rows, kind="grpo", eps=0.0))
    assert_close(got, want)
    cosine = torch.nn.functional.cosine_similarity(got, -of_reward(), 0)
    assert cosine < 0.999


def test_whitening_keeps_the_direction() -> None:
    """REINFORCE++ on a batch that is the distribution: each of nine equally likely sequences once."""
    theta = torch.zeros_like(THETA)
    logps = token_logps(theta)

    def loss(t: Tensor) -> Tensor:
        found: Tensor = reinforce_pp(token_logps(t), logps, logps, REWARDS.tolist(), ALL)["loss"]
        return found

    want = -of_reward(theta) / (2 * (REWARDS.var(correction=0) + 1e-8).sqrt())
    assert_close(gradient(loss, theta), want)


def test_a_running_baseline_of_the_role_is_unbiased() -> None:
    """SPIRAL's baseline is read before the reward moves it, so it cannot depend on the draw."""

    def loss(logps: Tensor, row: int) -> Tensor:
        baseline = RoleBaseline(state={"first": 0.4})
        (advantage,) = baseline.advantages([float(REWARDS[row])], ["first"])
        return reinforce(logps, torch.tensor([advantage], dtype=torch.float64), ALL[:1])

    def biased(logps: Tensor, row: int) -> Tensor:
        baseline = RoleBaseline(state={"first": 0.4}, order="update_then_use")
        (advantage,) = baseline.advantages([float(REWARDS[row])], ["first"])
        return reinforce(logps, torch.tensor([advantage], dtype=torch.float64), ALL[:1])

    assert_close(expected(loss), -of_reward())
    assert_close(expected(biased), -0.95 * of_reward())


# -- rewards on steps


def step_rewards(rows: Tensor) -> Tensor:
    """(B, 2)."""
    sequences = SEQUENCES[rows]
    return torch.stack([STEP_REWARDS[sequences[:, 0]], STEP_REWARDS[V + V * sequences[:, 0] + sequences[:, 1]]], 1)


@pytest.mark.parametrize(
    ("form", "gamma", "unbiased"),
    [
        ("exact", 0.6, True), ("total", 0.6, True), ("exact", 1.0, True), ("total", 1.0, True), ("rtg", 1.0, True),
        ("rtg", 0.6, False), ("literal", 1.0, False), ("literal", 0.6, False),
    ],
)  # fmt: skip
def test_which_forms_of_step_rewards_are_policy_gradients(form: Any, gamma: float, unbiased: bool) -> None:
    every = step_rewards(torch.arange(len(SEQUENCES)))
    discounted = every[:, 0] + gamma * every[:, 1]
    want = -gradient(lambda t: (chances(t) * discounted).sum())
    got = expected(
        lambda logps, row: cot_ro(
            logps,
            step_rewards(torch.tensor([row])),
            ALL[:1],
            form=form,
            gamma=gamma,
        )["loss"]
    )
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-12) == unbiased


def test_planner_and_executor_climb_what_both_earn_where_the_executor_shares() -> None:
    """The first token is the planner's step, the second the executor's only one."""

    def loss(logps: Tensor, row: int) -> Tensor:
        rewards = step_rewards(torch.tensor([row]))
        found: Tensor = hrl_tar(
            logps[:, :1], rewards[:, :1], ALL[:1, :1], logps[:, 1:], rewards[:, 1:], torch.zeros(1, 1, dtype=torch.long)
        )["loss"]
        return found

    every = step_rewards(torch.arange(len(SEQUENCES)))
    second = token_logps(THETA)[:, 1].detach()

    def hierarchical(t: Tensor) -> Tensor:
        """Each level its own reward, the other level's choices held fixed."""
        planner = (token_logps(t)[:, 0].exp() * second.exp() * every[:, 0]).sum()
        executor = (token_logps(THETA)[:, 0].exp() * token_logps(t)[:, 1].exp() * every[:, 1]).sum()
        return planner + executor

    assert_close(expected(loss), -gradient(hierarchical))


# -- divergences


def kl_of_sequences(t: Tensor) -> Tensor:
    """KL(policy || reference) of whole sequences."""
    logps = token_logps(t)
    return (logps.sum(1).exp() * (logps - token_logps(OTHER)).sum(1)).sum()


def kl_at_visited(t: Tensor, forward: bool) -> Tensor:
    """KL of the next token at the places that the policy THETA visits, by definition."""
    total = torch.zeros((), dtype=torch.float64)
    places = [(1.0, slice(0, V))]
    places += [(float(p), slice(V + V * i, 2 * V + V * i)) for i, p in enumerate(torch.softmax(THETA[:V], 0))]
    for weight, part in places:
        p, q = torch.log_softmax(t[part], 0), torch.log_softmax(OTHER[part], 0)
        total = total + weight * (p.exp() * (p - q) if forward else q.exp() * (q - p)).sum()
    return total


@pytest.mark.parametrize(
    ("estimator", "want"),
    [
        ("k1", lambda: torch.zeros_like(THETA)),
        ("k2", lambda: gradient(lambda t: kl_at_visited(t, True))),
        ("k3", lambda: gradient(lambda t: kl_at_visited(t, False))),
    ],
)
def test_in_the_loss(estimator: Any, want: Callable[[], Tensor]) -> None:
    """Nothing; KL(policy || reference); KL(reference || policy): at the places that are visited."""
    reference = token_logps(OTHER)

    def loss(logps: Tensor, row: int) -> Tensor:
        found: Tensor = ppo_policy(
            logps, old()[row : row + 1], torch.zeros(1), ALL[:1], ref_logps_BT=reference[row : row + 1], beta=1.0,
            kl_estimator=estimator, agg="seq_mean_token_sum",
        )["loss"]  # fmt: skip
        return found

    assert_close(expected(loss), want())


def test_the_absolute_gap_in_the_loss_is_no_divergence() -> None:
    reference = token_logps(OTHER)
    got = expected(lambda logps, row: kl_per_token(logps, reference[row : row + 1], estimator="abs").sum())
    for forward in (True, False):
        assert not torch.allclose(got, gradient(lambda t, f=forward: kl_at_visited(t, f)), atol=1e-3)  # type: ignore[misc]


def test_the_exact_kl_in_the_loss_is_that_of_the_visited_places() -> None:
    def loss(t: Tensor) -> Tensor:
        places = torch.cat([t[:V][None], t[V:].reshape(V, V)])
        other = torch.cat([OTHER[:V][None], OTHER[V:].reshape(V, V)])
        weights = torch.cat([torch.ones(1), torch.softmax(THETA[:V], 0)])
        return (weights * exact_kl(places, other)).sum()

    assert_close(gradient(loss), gradient(lambda t: kl_at_visited(t, True)))


@pytest.mark.parametrize(("estimator", "right"), [("k1", True), ("k2", False), ("k3", False), ("abs", False)])
def test_in_the_reward_k1_alone_has_the_gradient_of_the_kl(estimator: Any, right: bool) -> None:
    """REINFORCE on rewards less the KL climbs the expected reward less beta times the KL of whole sequences."""
    reference, beta = token_logps(OTHER), 0.3

    def loss(logps: Tensor, row: int) -> Tensor:
        one = slice(row, row + 1)
        rewards = kl_in_reward(
            REWARDS[one],
            old()[one],
            reference[one],
            ALL[:1],
            beta=beta,
            estimator=estimator,
        )
        return reinforce(logps, torch.from_numpy(rewards.sum(1)), ALL[:1])

    want = -of_reward() + beta * gradient(kl_of_sequences)
    assert torch.allclose(expected(loss), want, rtol=1e-10, atol=1e-12) == right


def test_rloo_and_reinforce_pp_take_the_kl_off_the_reward() -> None:
    reference, beta = token_logps(OTHER), 0.3
    got = over_pairs(
        lambda logps, rows: rloo(
            logps, old()[rows], REWARDS[rows].tolist(), ["q", "q"], ALL[:2], ref_logps_BT=reference[rows], kl_beta=beta
        )["loss"]
    )
    assert_close(got, -of_reward() + beta * gradient(kl_of_sequences))

    theta = torch.zeros_like(THETA)
    logps = token_logps(theta)

    def loss(t: Tensor) -> Tensor:
        result = reinforce_pp(token_logps(t), logps, reference, REWARDS.tolist(), ALL, beta=beta)
        found: Tensor = result["loss"]
        return found

    # Rewards to go, whitened over the tokens of a batch that is the distribution: the direction stays that of the sum.
    gaps = logps - reference
    to_go = torch.stack([REWARDS - beta * gaps.sum(1), REWARDS - beta * gaps[:, 1]], 1)
    want = -gradient(lambda t: (token_logps(t) * (to_go - to_go.mean())).sum(1).mean(), theta)
    assert_close(gradient(loss, theta), want / (2 * (to_go.var(correction=0) + 1e-8).sqrt()))
