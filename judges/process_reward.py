"""A process reward model as judge: a score after every step of a reply, and one score of all of them.

After each step the reply so far is scored by itself, so what a step is worth does not depend on what follows. A step is
good with probability sigmoid(score). The score of the whole reply is

    min      the worst step            (Wang et al. 2023, Math-Shepherd, 2312.08935, section 3.3)
    product  sum of log sigmoid(s_k): the log-probability that all steps are good (Lightman et al. 2023, 2305.20050)
    last     the final step            (the outcome verifier of Cobbe et al. 2021, 2110.14168)
    mean     the mean over the steps

`min`, `last` and `mean` are on the scale of the network's output, a log-odds; `product` is a log-probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from arena.judges.reward_model import Lapse, RewardModelJudge, Scale, Tile, build
from arena.judges.reward_text import Of, Reply, replies_of
from arena.judges.types import JudgeView
from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from arena.judges.reward_network import RewardNetwork

__all__ = ["Outcome", "ProcessRewardJudge", "Step", "log_sigmoid", "process_reward"]

Step = Literal["turn", "line"]
"""What a step is: a statement, or a line that is not empty."""
Outcome = Literal["min", "product", "last", "mean"]
"""How the scores of steps become one."""


def log_sigmoid(score: float) -> float:
    """log(1 / (1 + exp(-score))) without overflow."""
    return min(score, 0.0) - math.log1p(math.exp(-abs(score)))


class ProcessRewardJudge(RewardModelJudge):
    """Scores the replies step by step.

    Args:
        network: see `RewardModelJudge`; its output is read as the log-odds that the last step is good.
        prompt: see `RewardModelJudge`.
        of: ``all`` statements for the answer are the reply, or only the ``last``.
        step: what a step is.
        outcome: how the scores of steps become one.
        scale: see `RewardModelJudge`.
        unargued, lapse: see `RewardModelJudge`.
        report: what training measured.

    Where there are no answers, all statements with ``of=all`` are one reply, whoever made them. The scores of all steps
    are kept in the verdict's evidence: ``steps``, a list for each reply.
    """

    kind = "process-reward"

    def __init__(
        self,
        network: RewardNetwork,
        prompt: str | None = None,
        *,
        of: Of = "all",
        step: Step = "turn",
        outcome: Outcome = "min",
        scale: float = 1.0,
        unargued: bool = False,
        lapse: float = 0.0,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        if of == "answer":
            raise ConfigError("of=answer: a process reward reads steps of what was said; write all or last")
        if step not in ("turn", "line"):
            raise ConfigError(f"step={step!r}: write turn or line")
        if outcome not in ("min", "product", "last", "mean"):
            raise ConfigError(f"outcome={outcome!r}: write min, product, last or mean")
        self.step: Step = step
        self.combine: Outcome = outcome
        super().__init__(network, prompt, of=of, scale=scale, unargued=unargued, lapse=lapse, report=report)

    def config(self) -> dict[str, Any]:
        """See `RewardModelJudge.config`."""
        return {**super().config(), "step": self.step, "outcome": self.combine}

    def replies(self, view: JudgeView) -> list[Reply]:
        """See `RewardModelJudge.replies`."""
        if view.compared or self.of == "last":
            return super().replies(view)
        each = [replies_of(_only(view, number), self.of)[0] for number in range(len(view.statements))]
        if not each:
            raise ConfigError("nothing was said")
        return [each[0].upto(tuple(reply.texts[0] for reply in each))]

    def prefixes(self, reply: Reply) -> list[Reply]:
        """The reply after each of its steps."""
        steps = reply.lines if self.step == "line" else reply.texts
        if not steps:
            raise ConfigError("a reply without a line has no step to score")
        if self.step == "turn":
            return [reply.upto(steps[: count + 1]) for count in range(len(steps))]
        return [reply.upto(("\n".join(steps[: count + 1]),)) for count in range(len(steps))]

    def outcome(self, scores: Sequence[float]) -> float:
        """The score of the whole reply."""
        if self.combine == "min":
            return min(scores)
        if self.combine == "last":
            return scores[-1]
        if self.combine == "mean":
            return sum(scores) / len(scores)
        return sum(map(log_sigmoid, scores))

    def evidence(self, scores: Sequence[Sequence[float]]) -> dict[str, Any]:
        """The scores of all steps."""
        return {"steps": [list(each) for each in scores], "outcome": self.combine}


def _only(view: JudgeView, number: int) -> JudgeView:
    return JudgeView(view.key, view.question, (), statements=view.statements[: number + 1], fields=view.fields)


def process_reward(
    *,
    model: str | dict[str, Any] | None = None,
    path: str | None = None,
    prompt: str | None = None,
    of: Of | None = None,
    step: Step | None = None,
    outcome: Outcome | None = None,
    scale: Scale | None = None,
    unargued: bool | None = None,
    lapse: Lapse | None = None,
    tile: Tile | None = None,
) -> RewardModelJudge:
    """The judge that a spec names: ``process-reward:model=NAME`` or ``process-reward:path=DIR``.

    Raises:
        ConfigError: neither or both are given, or there is no such reward model.
    """
    options = {"prompt": prompt, "of": of, "step": step, "outcome": outcome, "scale": scale, "unargued": unargued}
    given = {key: value for key, value in {**options, "lapse": lapse}.items() if value is not None}
    return build(ProcessRewardJudge, model, path, tile, given)
