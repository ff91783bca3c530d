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
    """Results and gradients by name; NotImplementedError for what this project does not have yet."""
    if algo not in _ADAPTERS:
        raise NotImplementedError(algo)
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
    if "overlong" in options:
        raise NotImplementedError("dapo with the overlong penalty")
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


def _bt_mle(inputs: Values, options: Values) -> Values:
    try:
        from arena.ratings import bradley_terry
    except ImportError as error:
        raise NotImplementedError("bt_mle") from error

    fit = bradley_terry(inputs["n_players"], [tuple(game) for game in inputs["games"]], **options)
    return {"theta": list(fit.theta), "nu": fit.nu, "loglik": fit.loglik}


def _wilson(inputs: Values, options: Values) -> Values:
    try:
        from arena.statistics import wilson
    except ImportError as error:
        raise NotImplementedError("wilson") from error

    interval = wilson(inputs["successes"], inputs["n"], **options)
    return {"lo": interval.low, "hi": interval.high}


_ADAPTERS: dict[str, Callable[[Values, Values], Values]] = {
    "adaptive_kl": _adaptive_kl,
    "bt_mle": _bt_mle,
    "dapo": _grpo,
    "dr_grpo": _grpo,
    "group_advantages": _group_advantages,
    "grpo": _grpo,
    "gspo": _grpo,
    "kl_estimator": _kl_estimator,
    "kl_exact": _kl_exact,
    "ppo_policy": _ppo_policy,
    "sft": _sft,
    "sft_logits": _sft_logits,
    "whiten": _whiten,
    "wilson": _wilson,
}
