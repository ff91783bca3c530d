"""What objectives there are: name, family, paper, function, and the line of a recipe that runs it.

Light: listing them loads no tensors. An objective without a recipe is a function to build on.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OBJECTIVES", "Objective"]


class Objective(NamedTuple):
    """One objective."""

    name: str
    family: str
    """``policy gradient``, ``advantage``, ``kl``, ``importance``, ``supervised``, ``preference``, ``value``, ..."""
    paper: str
    """Authors, year and arXiv number."""
    function: str
    """``module.function`` under `arena.training.objectives`, or under `arena.training`."""
    recipe: str = ""
    """The line of a recipe that runs it; empty for what recipes do not offer."""


def _switch(name: str) -> str:
    return f"self_play.objective: {name}"


_POLICY = "policy gradient"
_LOSS, _PAY = "policy_gradient.ppo_policy", "reinforce.reinforce"

OBJECTIVES: tuple[Objective, ...] = (
    Objective("ppo", _POLICY, "Schulman et al. 2017, 1707.06347", _LOSS, _switch("ppo")),
    Objective("grpo", _POLICY, "Shao et al. 2024, 2402.03300", _LOSS, _switch("grpo")),
    Objective("dr_grpo", _POLICY, "Liu et al. 2025, 2503.20783", _LOSS, _switch("dr_grpo")),
    Objective("dapo", _POLICY, "Yu et al. 2025, 2503.14476", _LOSS, _switch("dapo")),
    Objective("gspo", _POLICY, "Zheng et al. 2025, 2507.18071", _LOSS, _switch("gspo")),
    Objective("dual_clip", _POLICY, "Ye et al. 2019, 1912.09729", _LOSS, "self_play.learner.objective.dual_clip: 3.0"),
    Objective("reinforce", _POLICY, "Williams 1992", _PAY, _switch("reinforce")),
    Objective("rloo", _POLICY, "Ahmadian et al. 2024, 2402.14740", "reinforce.rloo", _switch("rloo")),
    Objective("reinforce_pp", _POLICY, "Hu et al. 2025, 2501.03262", "reinforce.reinforce_pp", _switch("reinforce_pp")),
    Objective("spiral", _POLICY, "Liu et al. 2025, 2506.24119", "returns.RoleBaseline", _switch("spiral")),
    Objective("ob_rl", _POLICY, "survey IV-E", _PAY, _switch("reinforce")),
    Objective("v_rl", _POLICY, "survey IV-G", _PAY, _switch("reinforce")),
    Objective("ps_rl", _POLICY, "survey IV-J", "reinforce.pass_rate", _switch("reinforce")),
    Objective("cot_ro", _POLICY, "survey IV-F", "reinforce.cot_ro", "self_play.credit.returns: to_go"),
    Objective("hrl_tar", _POLICY, "survey IV-I", "reinforce.hrl_tar"),
    Objective("ppo_gae", "actor-critic", "Schulman et al. 2017, 1707.06347", "returns.gae", _switch("ppo_gae")),
    Objective(
        "ppo_value", "actor-critic", "Schulman et al. 2017, 1707.06347", "actor_critic.ppo_value", _switch("ppo_gae")
    ),
    Objective("ppo_total", "actor-critic", "Schulman et al. 2017, 1707.06347", "actor_critic.ppo_total"),
    Objective("ppo_ptx", "actor-critic", "Ouyang et al. 2022, 2203.02155", "actor_critic.ppo_ptx"),
    Objective("gae", "advantage", "Schulman et al. 2016, 1506.02438", "returns.gae", "self_play.credit.estimator: gae"),
    Objective(
        "returns_to_go",
        "advantage",
        "Sutton and Barto 2018",
        "returns.returns_to_go",
        "self_play.credit.returns: to_go",
    ),
    Objective(
        "group", "advantage", "Liu et al. 2025, 2503.20783", "advantages.credit", "self_play.credit.estimator: group"
    ),
    Objective(
        "group_deviation",
        "advantage",
        "Shao et al. 2024, 2402.03300",
        "advantages.group_advantages",
        "self_play.credit.estimator: grpo",
    ),
    Objective(
        "leave_one_out",
        "advantage",
        "Ahmadian et al. 2024, 2402.14740",
        "advantages.credit",
        "self_play.credit.estimator: leave_one_out",
    ),
    Objective(
        "rae",
        "advantage",
        "Liu et al. 2025, 2506.24119",
        "returns.RoleBaseline",
        "self_play.credit: {estimator: rae, key: [role, node]}",
    ),
    Objective(
        "whiten", "advantage", "Hu et al. 2025, 2501.03262", "supervised.whiten", "self_play.credit.scale: batch"
    ),
    Objective(
        "overlong",
        "advantage",
        "Yu et al. 2025, 2503.14476",
        "returns.overlong_penalty",
        "self_play.learner.objective.overlong: {max_len: 64, cache: 16}",
    ),
    Objective(
        "dynamic_sampling",
        "advantage",
        "Yu et al. 2025, 2503.14476",
        "returns.mixed_groups",
        "self_play.learner.objective.mixed_only: true",
    ),
    Objective("exact_kl", "kl", "Kullback and Leibler 1951", "kl.exact_kl", "self_play.learner.kl.estimator: exact"),
    Objective("k2", "kl", "Schulman 2020", "kl.kl_per_token", "self_play.learner.kl.estimator: k2"),
    Objective("k3", "kl", "Schulman 2020", "kl.kl_per_token", "self_play.learner.kl.estimator: k3"),
    Objective(
        "k1", "kl", "Ziegler et al. 2019, 1909.08593", "returns.kl_in_reward", "self_play.learner.kl: {place: reward}"
    ),
    Objective(
        "adaptive_kl",
        "kl",
        "Ziegler et al. 2019, 1909.08593",
        "kl_control.KLController",
        "self_play.learner.kl.target: 0.5",
    ),
    Objective("best_of_n_kl", "kl", "Stiennon et al. 2020, 2009.01325", "kl.best_of_n_kl"),
    Objective(
        "tis", "importance", "Yao et al. 2025", "importance.sampler_weights", "self_play.learner.importance: {cap: 2.0}"
    ),
    Objective("sft", "supervised", "Ouyang et al. 2022, 2203.02155", "supervised.nll", "warm_start.steps: 100"),
    Objective("rm_bt", "supervised", "Ouyang et al. 2022, 2203.02155", "supervised.rm_bt", "train.kind: bradley-terry"),
    Objective(
        "rm_pointwise",
        "supervised",
        "Cobbe et al. 2021, 2110.14168",
        "supervised.rm_pointwise",
        "train.kind: pointwise",
    ),
    Objective(
        "process_reward",
        "supervised",
        "Lightman et al. 2023, 2305.20050",
        "supervised.rm_pointwise",
        "train.kind: process",
    ),
    Objective("dpo", "preference", "Rafailov et al. 2023, 2305.18290", "preference.dpo"),
    Objective("robust_dpo", "preference", "Chowdhury et al. 2024, 2403.00409", "preference.robust_dpo"),
    Objective("hinge", "preference", "Zhao et al. 2023, 2305.10425", "preference.hinge"),
    Objective("ipo", "preference", "Azar et al. 2023, 2310.12036", "preference.ipo"),
    Objective("dpo_norm", "preference", "Lambert et al. 2024, 2411.15124", "preference.dpo_norm"),
    Objective("simpo", "preference", "Meng et al. 2024, 2405.14734", "preference.simpo"),
    Objective("orpo", "preference", "Hong et al. 2024, 2403.07691", "preference.orpo"),
    Objective("spin", "preference", "Chen et al. 2024, 2401.01335", "preference.spin"),
    Objective("una_pairwise", "preference", "Wang et al. 2024, 2408.15339", "preference.una_pairwise"),
    Objective("kto", "preference", "Ethayarajh et al. 2024, 2402.01306", "pointwise.kto"),
    Objective("una_binary_mse", "preference", "Wang et al. 2024, 2408.15339", "pointwise.una_binary_mse"),
    Objective("una_binary_bce", "preference", "Wang et al. 2024, 2408.15339", "pointwise.una_binary_bce"),
    Objective("una_score_mse", "preference", "Wang et al. 2024, 2408.15339", "pointwise.una_score_mse"),
    Objective("rrhf", "preference", "Yuan et al. 2023, 2304.05302", "pointwise.rrhf"),
    Objective("pro", "preference", "Song et al. 2023, 2306.17492", "pointwise.pro"),
    Objective("expectile", "value", "Kostrikov et al. 2021, 2110.06169", "value_based.expectile"),
    Objective("ilql", "value", "Snell et al. 2022, 2206.11871", "value_based.ilql"),
    Objective("ilql_decoding", "value", "Snell et al. 2022, 2206.11871", "value_based.ilql_logps"),
    Objective("cql", "value", "Kumar et al. 2020, 2006.04779", "value_based.cql"),
    Objective("verifierq", "value", "after Qi et al. 2024, 2410.08048", "value_based.verifierq_style"),
    Objective("lagrangian", "constrained", "Ray et al. 2019; Dai et al. 2023, 2310.12773", "constrained.Multiplier"),
    Objective("lagrangian_advantage", "constrained", "Ray et al. 2019", "constrained.constrained_advantages"),
    Objective("scalarise", "constrained", "Miettinen 1999", "constrained.scalarise"),
    Objective("pareto_front", "constrained", "Miettinen 1999", "constrained.pareto_front"),
)
"""All of them, family by family."""
