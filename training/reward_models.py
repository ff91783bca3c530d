"""Reward models learn from labelled views: pairs, single replies, or steps.

What is trained on are the rows of token ids that the judge reads (`RewardModelJudge.rows`), so nothing differs between
training and judging but padding. Dropout stays off: a step is a function of weights, examples and its number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from arena.judges.process_reward import ProcessRewardJudge
from arena.judges.reward_model import RewardModelJudge, load_reward_judge
from arena.judges.reward_network import RewardNetwork, Row
from arena.judges.reward_opening import add_lora, open_reward_network
from arena.judges.types import JudgeView
from arena.protocols.errors import ConfigError, NumericalError, ResumeError
from arena.protocols.registry import Spec
from arena.seeds import derive_seed
from arena.training.judge_data import Example
from arena.training.learner_config import learning_rate
from arena.training.objectives.supervised import rm_bt, rm_pointwise
from arena.training.reward_config import BradleyTerry, Pointwise, Process, RewardMethod
from arena.training.reward_targets import grades, last_grade, parted, step_grades

__all__ = ["BradleyTerryTrainer", "PointwiseTrainer", "ProcessTrainer", "RewardTrainer"]

Method = TypeVar("Method", bound=RewardMethod)

KINDS: dict[str, type[RewardModelJudge]] = {"reward-model": RewardModelJudge, "process-reward": ProcessRewardJudge}


@dataclass(frozen=True, slots=True)
class Item:
    """An example as it is learned from."""

    rows: tuple[Row, ...]
    targets: tuple[float, ...]
    """One number a row; what it means, the method says."""


class RewardTrainer(ABC, Generic[Method]):
    """Trains a reward model; a `JudgeTrainer`. The methods say what an example gives and what the loss is.

    Args:
        config: the method.
        start: the judge to begin with: ``model``, or ``path`` of a saved one, and its options.
        seed: of fresh weights and of the order of examples.

    Raises:
        ConfigError: there is no such judge, or it cannot be trained in this way.
    """

    def __init__(self, config: Method, start: Spec, *, seed: int) -> None:
        self.config = config
        self.seed = seed
        self._judge = _own_judge(config, start, seed)
        network = self._judge.network.network
        self._trained = [weight for weight in network.parameters() if weight.requires_grad]
        options = config.learner
        self._optimizer = torch.optim.AdamW(
            self._trained, lr=options.lr, betas=options.betas, weight_decay=options.weight_decay, fused=True
        )
        self._items: list[Item] = []
        self._orders: dict[int, list[int]] = {}

    # -- what a method says

    @abstractmethod
    def item(self, example: Example, rows: Sequence[Sequence[Row]]) -> Item:
        """What is learned from an example whose replies have these rows of prefixes."""

    @abstractmethod
    def loss(self, scores_R: Tensor, items: Sequence[Item]) -> tuple[Tensor, float, int]:
        """Mean loss, mean accuracy, and over how many entries; the scores of all rows stand in order of the items."""

    # -- learning

    def begin(self, examples: Sequence[Example]) -> None:
        """See `JudgeTrainer.begin`.

        Raises:
            ConfigError: the judge cannot read one of them.
        """
        self._orders.clear()
        self._items = [self.item(example, self._rows(example.view)) for example in examples]

    def _rows(self, view: JudgeView) -> list[list[Row]]:
        try:
            rows = self._judge.rows(view)
        except ConfigError as error:
            raise ConfigError(f"'{view.key}' cannot be learned from: {error}") from None
        longest, limit = max(len(row) for each in rows for row in each), self._judge.network.max_length
        if limit is not None and longest > limit:
            raise ConfigError(f"'{view.key}' takes {longest} tokens and the model reads {limit}: leave it out")
        return rows

    def step(self, number: int) -> dict[str, float]:
        """See `JudgeTrainer.step`.

        Raises:
            NumericalError: the loss is not finite; the weights are as they were.
        """
        items = [self._items[place] for place in self._drawn(number)]
        parts = list(_parts(items, self.config.learner.micro_batch))
        total = sum(len(item.targets) for item in items)
        loss_sum = right_sum = 0.0
        self._optimizer.zero_grad()
        for part in parts:
            scores_R = self._judge.network.forward([row for item in part for row in item.rows])
            loss, right, count = self.loss(scores_R, part)
            (loss * (count / total)).backward()  # type: ignore[no-untyped-call]
            loss_sum += float(loss.detach()) * count / total
            right_sum += right * count / total
        if not math.isfinite(loss_sum):
            raise NumericalError(f"the loss of step {number} is {loss_sum}: lower learner.lr")
        norm = torch.nn.utils.clip_grad_norm_(self._trained, self.config.learner.clip_norm or math.inf)
        rate = self._optimizer.param_groups[0]["lr"] = learning_rate(self.config.learner, number)
        self._optimizer.step()
        return {"loss": loss_sum, "accuracy": right_sum, "grad_norm": float(norm), "lr": rate}

    def _drawn(self, number: int) -> list[int]:
        """Numbers of the examples of a step: pass after pass over all, each in an order of its own."""
        count, first = len(self._items), number * self.config.batch
        places = range(first, first + min(self.config.batch, count))
        epochs = {place // count for place in places}
        for epoch in epochs - self._orders.keys():
            self._orders[epoch] = (
                np.random.default_rng(derive_seed(self.seed, "order", epoch)).permutation(count).tolist()
            )
        self._orders = {epoch: self._orders[epoch] for epoch in epochs}
        return [self._orders[place // count][place % count] for place in places]

    # -- what comes of it

    def judge(self) -> RewardModelJudge:
        """See `JudgeTrainer.judge`."""
        return self._judge.with_network(self._judge.network.frozen_copy())

    def state_dict(self) -> dict[str, Any]:
        """See `JudgeTrainer.state_dict`."""
        weights = {
            name: weight for name, weight in self._judge.network.network.named_parameters() if weight.requires_grad
        }
        return {
            "weights": {name: weight.detach().cpu().clone() for name, weight in weights.items()},
            "optimizer": self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `JudgeTrainer.load_state_dict`."""
        weights = {
            name: weight for name, weight in self._judge.network.network.named_parameters() if weight.requires_grad
        }
        if {name: tensor.shape for name, tensor in state["weights"].items()} != {
            n: w.shape for n, w in weights.items()
        }:
            raise ResumeError("the checkpoint belongs to another network: take another --out")
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(state["weights"][name])
        self._optimizer.load_state_dict(state["optimizer"])


class BradleyTerryTrainer(RewardTrainer[BradleyTerry]):
    """Rows come in pairs, right and wrong; the target is the margin of the pair."""

    def item(self, example: Example, rows: Sequence[Sequence[Row]]) -> Item:
        """See `RewardTrainer.item`: the right reply against each other one."""
        right, others = parted(example, rows)
        if not others:
            raise ConfigError(
                f"'{example.view.key}' has no other reply to compare with: use train: {{kind: pointwise}}"
            )
        margin = self.config.margin * (example.margin or 0.0)
        return Item(tuple(row for other in others for row in (right[-1], other[-1])), (margin,) * len(others))

    def loss(self, scores_R: Tensor, items: Sequence[Item]) -> tuple[Tensor, float, int]:
        """See `RewardTrainer.loss`."""
        margins = torch.tensor([margin for item in items for margin in item.targets], device=scores_R.device)
        soft = torch.full_like(margins, 1.0 - self.config.smoothing)
        found = rm_bt(
            scores_R[::2], scores_R[1::2], margin_B=margins, soft_label_B=soft, center_coef=self.config.center
        )
        return found["loss"], float(found["accuracy"]), len(margins)


class PointwiseTrainer(RewardTrainer[Pointwise]):
    """One row a reply; the target is its grade."""

    def item(self, example: Example, rows: Sequence[Sequence[Row]]) -> Item:
        """See `RewardTrainer.item`: the grade of a reply is that of its last statement, or whether it is right."""
        parted(example, rows)
        graded = grades(example)
        targets = [last_grade(example, graded, index) for index in range(len(rows))]
        return Item(tuple(each[-1] for each in rows), tuple(targets))

    def loss(self, scores_R: Tensor, items: Sequence[Item]) -> tuple[Tensor, float, int]:
        """See `RewardTrainer.loss`."""
        middle = 0.0 if self.config.loss == "bce" else 0.5
        return _pointwise(scores_R, items, self.config.loss, middle)


class ProcessTrainer(RewardTrainer[Process]):
    """One row a step; the target is how good the step is."""

    def item(self, example: Example, rows: Sequence[Sequence[Row]]) -> Item:
        """See `RewardTrainer.item`."""
        parted(example, rows)
        judge = self._judge
        assert isinstance(judge, ProcessRewardJudge)
        flat = tuple(row for each in rows for row in each)
        if not example.steps:
            return Item(flat, tuple(float(index == example.label) for index, each in enumerate(rows) for _ in each))
        targets = [grade for index in range(len(rows)) for grade in step_grades(example, judge, index)]
        if len(targets) != len(flat):
            raise ConfigError(f"'{example.view.key}' has {len(targets)} labels for {len(flat)} steps to learn from")
        return Item(flat, tuple(targets))

    def loss(self, scores_R: Tensor, items: Sequence[Item]) -> tuple[Tensor, float, int]:
        """See `RewardTrainer.loss`."""
        return _pointwise(scores_R, items, "bce", 0.0)


def _pointwise(scores_R: Tensor, items: Sequence[Item], kind: Any, middle: float) -> tuple[Tensor, float, int]:
    targets_R = torch.tensor([target for item in items for target in item.targets], device=scores_R.device)
    right = ((scores_R.detach() > middle) == (targets_R > 0.5)).float().mean()
    return rm_pointwise(scores_R, targets_R, kind=kind), float(right), len(targets_R)


def _parts(items: Sequence[Item], most: int) -> list[list[Item]]:
    """Items in runs of at most ``most`` tokens, padding included; at least one item each."""
    parts: list[list[Item]] = []
    rows = longest = 0
    for item in items:
        widest = max(longest, *map(len, item.rows))
        if not parts or (rows + len(item.rows)) * widest > most:
            parts.append([])
            rows, widest = 0, max(map(len, item.rows))
        parts[-1].append(item)
        rows, longest = rows + len(item.rows), widest
    return parts


def _own_judge(config: RewardMethod, start: Spec, seed: int) -> RewardModelJudge:
    """The judge of a spec around weights that nobody else holds, ready to be trained."""
    make, args = KINDS[start.kind], dict(start.args)
    model, path, tile = (args.pop(name, None) for name in ("model", "path", "tile"))
    if (model is None) == (path is None):
        raise ConfigError(f"a judge '{start.kind}' begins with either model=NAME or path=FOLDER of a saved judge")
    lora = config.lora if config.binding == "adapter" else None
    if path is not None:
        judge = load_reward_judge(path, make, args)
    else:
        body = open_reward_network(model, train=True, seed=derive_seed(seed, "weights") % 2**31)
        judge = make(RewardNetwork(body.network, body.encoder, body.source, tile), **args)
    network = judge.network
    adapted = hasattr(network.network, "peft_config")
    if adapted and lora is None:
        raise ConfigError(f"the judge in '{path}' is a LoRA: write binding: adapter to train it further")
    if adapted and lora:
        raise ConfigError(f"the judge in '{path}' has a LoRA of its own: remove lora")
    if not adapted:
        network.network.requires_grad_(True)
    if lora is not None and not adapted:
        network = add_lora(network, lora, seed=derive_seed(seed, "adapter") % 2**31)
    return judge.with_network(network)
