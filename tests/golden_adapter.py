"""Names and shapes of the golden vectors -> our functions. Translation only: a formula in this file is a defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

DTYPE = torch.float64
"""The tests set float32 as well."""

Values = dict[str, Any]


def compute(algo: str, inputs: Values, options: Values) -> Values:
    """Results and gradients by name."""
    return _ADAPTERS[algo](inputs, options)


def _tensors(inputs: Values, *names: str) -> list[Tensor]:
    return [torch.tensor(inputs[name], dtype=DTYPE) for name in names]


def _leaf(values: Any) -> Tensor:
    return torch.tensor(values, dtype=DTYPE, requires_grad=True)


def _out(values: Values) -> Values:
    return {key: value.detach().tolist() if isinstance(value, Tensor) else value for key, value in values.items()}


def _ppo_policy(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.policy_gradient import ppo_policy

    logps = _leaf(inputs["logps"])
    old, mask, advantages = _tensors(inputs, "old_logps", "mask", "advantages")
    reference = torch.tensor(inputs["ref_logps"], dtype=DTYPE) if "ref_logps" in inputs else None
    groups = inputs.get("group_ids")
    result = ppo_policy(logps, old, advantages, mask, ref_logps_BT=reference, group_ids=groups, **options)
    result["loss"].backward()  # type: ignore[no-untyped-call]
    return _out({**result, "grad_logps": logps.grad})


def _group_advantages(inputs: Values, options: Values) -> Values:
    from arena.training.advantages import group_advantages

    return {"advantages": group_advantages(inputs["rewards"], inputs["group_ids"], **options).tolist()}


def _grpo(inputs: Values, options: Values) -> Values:
    from arena.training.advantages import group_advantages

    options = dict(options)
    advantages = group_advantages(inputs["rewards"], inputs["group_ids"], **options.pop("advantage", {}))
    result = _ppo_policy({**inputs, "advantages": advantages.tolist()}, options)
    return {**result, "advantages": advantages.tolist()}


def _kl_estimator(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.aggregate import aggregate
    from arena.training.objectives.kl import kl_per_token

    logps = _leaf(inputs["logps"])
    mask, reference = _tensors(inputs, "mask", "ref_logps")
    per_token = kl_per_token(logps, reference, mask, estimator=options["estimator"], clamp=options.get("clamp"))
    kl = aggregate(per_token, mask, options.get("agg", "token_mean"))
    kl.backward()  # type: ignore[no-untyped-call]
    return _out({"kl": kl, "per_token": per_token, "grad_logps": logps.grad})


def _kl_exact(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.kl import exact_kl

    return _out({"kl": exact_kl(*_tensors(inputs, "p_logits", "q_logits"))})


def _adaptive_kl(inputs: Values, options: Values) -> Values:
    from arena.training.kl_control import KLController

    gain = {"gain": options["k_beta"]} if "k_beta" in options else {}
    horizon = {"horizon": options["horizon"], "batch": options["n_steps"]} if "horizon" in options else {}
    control = KLController(options["beta0"], target=options["target"], **gain, **horizon)
    return {"betas": [control.update(kl) for kl in inputs["kls"]]}


def _sft(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.supervised import nll

    logps = _leaf(inputs["logps"])
    loss = nll(logps, *_tensors(inputs, "mask"), **options)
    loss.backward()  # type: ignore[no-untyped-call]
    return _out({"loss": loss, "grad_logps": logps.grad})


def _sft_logits(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.supervised import nll_from_logits

    logits = _leaf(inputs["logits"])
    loss = nll_from_logits(logits, torch.tensor(inputs["labels"]), **options)
    loss.backward()  # type: ignore[no-untyped-call]
    return _out({"loss": loss, "grad_logits": logits.grad})


def _whiten(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.supervised import whiten

    return _out({"out": whiten(*_tensors(inputs, "x", "mask"), **options)})


def _rm_bt(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.supervised import rm_bt

    chosen, rejected = _leaf(inputs["chosen"]), _leaf(inputs["rejected"])
    given = {
        f"{name}_B": torch.tensor(inputs[name], dtype=DTYPE) for name in ("margin", "soft_label") if name in inputs
    }
    result = rm_bt(chosen, rejected, **given, **options)
    result["loss"].backward()  # type: ignore[no-untyped-call]
    return _out({**result, "grad_chosen": chosen.grad, "grad_rejected": rejected.grad})


def _rm_pointwise(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.supervised import rm_pointwise

    scores = _leaf(inputs["scores"])
    weights = torch.tensor(inputs["weights"], dtype=DTYPE) if "weights" in inputs else None
    loss = rm_pointwise(scores, *_tensors(inputs, "targets"), weights=weights, **options)
    loss.backward()  # type: ignore[no-untyped-call]
    return _out({"loss": loss, "grad_scores": scores.grad})


def _bt_mle(inputs: Values, options: Values) -> Values:
    from arena.ratings import bradley_terry

    fit = bradley_terry(inputs["n_players"], [tuple(game) for game in inputs["games"]], **options)
    return {"theta": list(fit.theta), "nu": fit.nu, "loglik": fit.loglik}


def _wilson(inputs: Values, options: Values) -> Values:
    from arena.statistics import wilson

    interval = wilson(inputs["successes"], inputs["n"], **options)
    return {"lo": interval.low, "hi": interval.high}


def _metric(name: str, result: str) -> Callable[[Values, Values], Values]:
    """A function of `arena.metrics` whose parameters have the names of the inputs and options."""

    def compute_metric(inputs: Values, options: Values) -> Values:
        from arena import metrics

        value = getattr(metrics, name)(**inputs, **options)
        return {result: value if isinstance(value, float) else value.tolist()}

    return compute_metric


def _replies(inputs: Values, prefix: str, leaf: Tensor, ref: str) -> Any:
    from arena.training.objectives.preference import Replies

    (mask,) = _tensors(inputs, f"{prefix}mask")
    return Replies(leaf, mask, *(_tensors(inputs, ref) if ref in inputs else ()))


def _pairwise(name: str) -> Callable[[Values, Values], Values]:
    """A function of `arena.training.objectives.preference`."""

    def compute_pairwise(inputs: Values, options: Values) -> Values:
        from arena.training.objectives import preference

        chosen, rejected = _leaf(inputs["chosen_logps"]), _leaf(inputs["rejected_logps"])
        pairs = preference.Pairs(
            _replies(inputs, "chosen_", chosen, "ref_chosen_logps"),
            _replies(inputs, "rejected_", rejected, "ref_rejected_logps"),
        )
        result = getattr(preference, name)(pairs, **options)
        result["loss"].backward()
        return _out({**result, "grad_chosen_logps": chosen.grad, "grad_rejected_logps": rejected.grad})

    return compute_pairwise


def _pointwise(name: str, *given: str) -> Callable[[Values, Values], Values]:
    """A function of `arena.training.objectives.pointwise`; ``given`` are its inputs beside the replies."""

    def compute_pointwise(inputs: Values, options: Values) -> Values:
        from arena.training.objectives import pointwise

        logps = _leaf(inputs["logps"])
        more = _tensors(inputs, *given)
        if "kl_logps" in inputs:
            more.append(_replies(inputs, "kl_", *_tensors(inputs, "kl_logps"), "kl_ref_logps"))
        result = getattr(pointwise, name)(_replies(inputs, "", logps, "ref_logps"), *more, **options)
        result["loss"].backward()
        return _out({**result, "grad_logps": logps.grad})

    return compute_pointwise


def _gradients(loss: Tensor, **leaves: Tensor) -> Values:
    """Backward through the loss: ``grad_NAME`` of each leaf."""
    loss.backward()  # type: ignore[no-untyped-call]
    return {f"grad_{name}": leaf.grad for name, leaf in leaves.items()}


def _policy_arrays(inputs: Values) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    reference = _tensors(inputs, "ref_logps")[0] if "ref_logps" in inputs else None
    old, mask = _tensors(inputs, "old_logps", "mask")
    return _leaf(inputs["logps"]), old, mask, reference


def _gae(inputs: Values, options: Values) -> Values:
    from arena.training.returns import gae

    bootstrap = inputs.get("bootstrap_values")
    arrays = (inputs["rewards"], inputs["values"], inputs["mask"])
    advantages, returns = gae(*arrays, bootstrap_values_B=bootstrap, **options)
    return {"advantages": advantages.tolist(), "returns": returns.tolist()}


def _kl_in_reward(inputs: Values, options: Values) -> Values:
    from arena.training.returns import kl_in_reward

    arrays = (inputs["scores"], inputs["logps"], inputs["ref_logps"], inputs["mask"])
    return {"rewards": kl_in_reward(*arrays, **options).tolist()}


def _rae(inputs: Values, options: Values) -> Values:
    from arena.training.returns import RoleBaseline

    baseline = RoleBaseline(**options)
    return {
        "advantages": baseline.advantages(inputs["rewards"], inputs["keys"]),
        "baselines": dict(baseline.averages),
    }


def _dapo(inputs: Values, options: Values) -> Values:
    from arena.training.returns import overlong_penalty

    options, rewards = dict(options), inputs["rewards"]
    if "overlong" in options:
        penalty = overlong_penalty(_tensors(inputs, "mask")[0].sum(1), **options.pop("overlong"))
        rewards = [reward + more for reward, more in zip(rewards, penalty.tolist(), strict=True)]
    return _grpo({**inputs, "rewards": rewards}, options)


def _dapo_overlong(inputs: Values, options: Values) -> Values:
    from arena.training.returns import overlong_penalty

    return {"penalty": overlong_penalty(inputs["lengths"], **options).tolist()}


def _dapo_keep(inputs: Values, options: Values) -> Values:
    from arena.training.returns import mixed_groups

    return {"keep": [int(kept) for kept in mixed_groups(inputs["rewards"], inputs["group_ids"])]}


def _ppo_value(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.actor_critic import ppo_value

    values = _leaf(inputs["values"])
    loss = ppo_value(values, *_tensors(inputs, "old_values", "returns", "mask"), **options)
    return _out({"loss": loss, **_gradients(loss, values=values)})


def _ppo_total(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.actor_critic import ppo_total

    leaves = {name: _leaf(inputs[name]) for name in ("logps", "values", "logits")}
    old, advantages, old_values, returns, mask = _tensors(
        inputs, "old_logps", "advantages", "old_values", "returns", "mask"
    )
    arrays = (leaves["logps"], old, advantages, leaves["values"], old_values, returns, leaves["logits"], mask)
    result = ppo_total(*arrays, **options)
    return _out({**result, **_gradients(result["loss"], **leaves)})


def _ppo_ptx(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.actor_critic import ppo_ptx

    leaves = {name: _leaf(inputs[name]) for name in ("logps", "ptx_logps")}
    old, advantages, mask, ptx_mask = _tensors(inputs, "old_logps", "advantages", "mask", "ptx_mask")
    options = dict(options)
    clip = options.pop("clip")
    result = ppo_ptx(
        leaves["logps"], old, advantages, mask, leaves["ptx_logps"], ptx_mask, clip_low=clip, clip_high=clip, **options
    )
    return _out({**result, **_gradients(result["loss"], **leaves)})


def _tis_weights(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.importance import sampler_weights

    return _out({"weights": sampler_weights(*_tensors(inputs, "old_logps", "rollout_logps", "mask"), **options)})


def _tis_policy(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.importance import sampler_weights
    from arena.training.objectives.policy_gradient import ppo_policy

    options = dict(options)
    weights = sampler_weights(*_tensors(inputs, "old_logps", "rollout_logps", "mask"), **options.pop("tis"))
    logps, old, mask, reference = _policy_arrays(inputs)
    if "beta" not in options:
        reference = None
    (advantages,) = _tensors(inputs, "advantages")
    result = ppo_policy(logps, old, advantages, mask, ref_logps_BT=reference, importance_BT=weights, **options)
    return _out({**result, "weights": weights, **_gradients(result["loss"], logps=logps)})


def _reinforce(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.reinforce import reinforce

    logps = _leaf(inputs["logps"])
    returns, mask = _tensors(inputs, "returns", "mask")
    baseline = torch.tensor(inputs.get("baseline", 0.0), dtype=DTYPE)
    loss = reinforce(logps, returns, mask, baseline=baseline, **options)
    return _out({"loss": loss, "returns": returns, **_gradients(loss, logps=logps)})


def _outcome(name: str) -> Callable[[Values, Values], Values]:
    """REINFORCE with the input of that name as return."""
    return lambda inputs, options: _reinforce({**inputs, "returns": inputs[name]}, options)


def _ps_rl(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.reinforce import pass_rate

    return _reinforce({**inputs, "returns": pass_rate(*_tensors(inputs, "passed", "total")).tolist()}, options)


def _rloo(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.reinforce import rloo

    logps, old, mask, reference = _policy_arrays(inputs)
    result = rloo(logps, old, inputs["rewards"], inputs["group_ids"], mask, ref_logps_BT=reference, **options)
    return _out({**result, **_gradients(result["loss"], logps=logps)})


def _reinforce_pp(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.reinforce import reinforce_pp

    logps, old, mask, reference = _policy_arrays(inputs)
    assert reference is not None
    groups = inputs.get("group_ids")
    result = reinforce_pp(logps, old, reference, inputs["scores"], mask, group_ids=groups, **options)
    return _out({**result, **_gradients(result["loss"], logps=logps)})


def _cot_ro(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.reinforce import cot_ro

    logps = _leaf(inputs["logps"])
    result = cot_ro(logps, *_tensors(inputs, "rewards", "mask"), **options)
    return _out({**result, **_gradients(result["loss"], logps=logps)})


def _hrl_tar(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.reinforce import hrl_tar

    hi, lo = _leaf(inputs["hi_logps"]), _leaf(inputs["lo_logps"])
    hi_rewards, hi_mask, lo_rewards = _tensors(inputs, "hi_rewards", "hi_mask", "lo_rewards")
    result = hrl_tar(hi, hi_rewards, hi_mask, lo, lo_rewards, torch.tensor(inputs["lo_segments"]), **options)
    return _out({**result, **_gradients(result["loss"], hi_logps=hi, lo_logps=lo)})


def _ilql(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.value_based import ilql

    leaves = {name: _leaf(inputs[name]) for name in ("q", "v", "q2") if name in inputs}
    target, rewards, mask = _tensors(inputs, "target_q", "rewards", "mask")
    second = {"q2_BTV": leaves["q2"], "target_q2_BTV": _tensors(inputs, "target_q2")[0]} if "q2" in inputs else {}
    actions = torch.tensor(inputs["actions"])
    result = ilql(leaves["q"], target, leaves["v"], actions, rewards, mask, **second, **options)
    return _out({**result, **_gradients(result["loss"], **leaves)})


def _ilql_decode(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.value_based import ilql_logps

    return _out({"logprobs": ilql_logps(*_tensors(inputs, "lm_logits", "q", "v"), **options)})


def _expectile(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.value_based import expectile

    return _out({"loss": expectile(*_tensors(inputs, "u"), **options)})


def _cql(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.value_based import cql

    q = _leaf(inputs["q"])
    following, rewards, done = _tensors(inputs, "next_target_q", "rewards", "done")
    mu = _tensors(inputs, "mu")[0] if "mu" in inputs else None
    result = cql(q, following, torch.tensor(inputs["actions"]), rewards, done, mu_NV=mu, **options)
    return _out({**result, **_gradients(result["loss"], q=q)})


def _verifierq(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.value_based import verifierq_style

    leaves = {name: _leaf(inputs[name]) for name in ("q", "v", "cand_q")}
    result = verifierq_style(*leaves.values(), *_tensors(inputs, "target_q", "rewards", "mask"), **options)
    return _out({**result, **_gradients(result["loss"], **leaves)})


def _lagrangian(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.constrained import Multiplier

    options = dict(options)
    multiplier = Multiplier(options.pop("lam0"), **options)
    return {"lambdas": [multiplier.update(cost) for cost in inputs["costs"]]}


def _lag_advantage(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.constrained import constrained_advantages

    advantages = constrained_advantages(
        inputs["adv_r"], inputs["adv_c"], multiplier=options["lam"], normalize=options["normalize"]
    )
    return {"advantages": advantages.tolist()}


def _scalarise(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.constrained import scalarise

    return {"scores": scalarise(inputs["rewards"], inputs["weights"], ideal_K=inputs.get("ideal"), **options).tolist()}


def _pareto_front(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.constrained import pareto_front

    return {"indices": pareto_front(inputs["points"])}


def _elo(inputs: Values, options: Values) -> Values:
    from arena.ratings import elo

    return {"ratings": elo(inputs["games"], **options)}


def _bt_bootstrap(inputs: Values, options: Values) -> Values:
    from arena.ratings import bootstrap_ratings

    found = bootstrap_ratings(inputs["n_players"], inputs["games"], inputs["index_sets"], **options)
    return {name: values.tolist() for name, values in found.items()}


def _passes(name: str) -> Callable[[Values, Values], Values]:
    """A function of `arena.passes`, for each column of the inputs."""

    def compute_passes(inputs: Values, options: Values) -> Values:
        from arena import passes

        rows = zip(inputs["n"], inputs["c"], inputs["k"], strict=True)
        return {name: [getattr(passes, name)(n, c, k) for n, c, k in rows]}

    return compute_passes


def _best_of_n_kl(inputs: Values, options: Values) -> Values:
    from arena.training.objectives.kl import best_of_n_kl

    return {"bound": [best_of_n_kl(n) for n in inputs["n"]]}


_ADAPTERS: dict[str, Callable[[Values, Values], Values]] = {
    "adaptive_kl": _adaptive_kl,
    "best_of_n_kl": _best_of_n_kl,
    "brier": _metric("brier", "brier"),
    "bt_bootstrap": _bt_bootstrap,
    "bt_mle": _bt_mle,
    "cohen_kappa": _metric("cohen_kappa", "kappa"),
    "cot_ro": _cot_ro,
    "cql": _cql,
    "dapo": _dapo,
    "dapo_keep": _dapo_keep,
    "dapo_overlong": _dapo_overlong,
    "dpo": _pairwise("dpo"),
    "dpo_norm": _pairwise("dpo_norm"),
    "dr_grpo": _grpo,
    "ece": _metric("ece", "ece"),
    "elo": _elo,
    "expectile": _expectile,
    "fleiss_kappa": _metric("fleiss_kappa", "kappa"),
    "gae": _gae,
    "group_advantages": _group_advantages,
    "grpo": _grpo,
    "gspo": _grpo,
    "hrl_tar": _hrl_tar,
    "ilql": _ilql,
    "ilql_decode": _ilql_decode,
    "ipo": _pairwise("ipo"),
    "judge_swap_average": _metric("judge_swap_average", "p_a"),
    "kl_estimator": _kl_estimator,
    "kl_exact": _kl_exact,
    "kl_in_reward": _kl_in_reward,
    "kto": _pointwise("kto", "labels"),
    "lag_advantage": _lag_advantage,
    "lagrangian": _lagrangian,
    "ob_rl": _outcome("outcome"),
    "orpo": _pairwise("orpo"),
    "pareto_front": _pareto_front,
    "pass_at_k": _passes("pass_at_k"),
    "pass_hat_k": _passes("pass_hat_k"),
    "ppo_policy": _ppo_policy,
    "ppo_ptx": _ppo_ptx,
    "ppo_total": _ppo_total,
    "ppo_value": _ppo_value,
    "pro": _pointwise("pro", "rewards"),
    "ps_rl": _ps_rl,
    "rae": _rae,
    "reinforce": _reinforce,
    "reinforce_pp": _reinforce_pp,
    "rlhf_total": _ppo_policy,
    "rloo": _rloo,
    "rm_bt": _rm_bt,
    "rm_pointwise": _rm_pointwise,
    "robust_dpo": _pairwise("robust_dpo"),
    "rrhf": _pointwise("rrhf", "rewards"),
    "scalarise": _scalarise,
    "sft": _sft,
    "sft_logits": _sft_logits,
    "simpo": _pairwise("simpo"),
    "slic_hinge": _pairwise("hinge"),
    "spin": _pairwise("spin"),
    "tis_policy": _tis_policy,
    "tis_weights": _tis_weights,
    "una_binary_bce": _pointwise("una_binary_bce", "targets"),
    "una_binary_mse": _pointwise("una_binary_mse", "targets"),
    "una_pairwise": _pairwise("una_pairwise"),
    "una_score_mse": _pointwise("una_score_mse", "targets"),
    "v_rl": _outcome("verifier_scores"),
    "verifierq_style": _verifierq,
    "whiten": _whiten,
    "wilson": _wilson,
}
