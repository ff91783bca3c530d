"""A reward model as judge: what each answer's statements are worth by themselves, compared afterwards.

    score_i = r(prompt(question, answer_i), statements for answer_i)        log p = log_softmax(scale * score)

With two answers this is the model of Bradley and Terry under which reward models are trained (Ouyang et al. 2022,
2203.02155, equation 1). No presentation order exists, so there is none to prefer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from arena.judges.fingerprint import fingerprint
from arena.judges.reward_text import Of, Reply, RewardPrompt, replies_of
from arena.judges.types import JudgeView
from arena.judges.verdicts import MOST_WEIGHT, abstain, scored
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus

if TYPE_CHECKING:  # it loads torch, which a check of arguments can do without
    from arena.judges.reward_network import RewardNetwork, Row

__all__ = ["RewardModelJudge", "load_reward_judge", "read_config", "reward_model"]

MEMO = 200_000
"""Most scores remembered: prefixes of debates come again and again."""
WORDS_PROMPT = "{{ question }} {{ answer }}"
"""For word-level vocabularies, which have no words for a frame."""


Scale = Annotated[float, Field(gt=0, le=MOST_WEIGHT)]
Lapse = Annotated[float, Field(ge=0, lt=1)]
Tile = Annotated[int, Field(ge=1, le=100_000)]


class RewardModelJudge:
    """Scores every answer by the statements that argue for it.

    Args:
        network: gives one number for a prompt and a reply; it is not trained while it judges.
        prompt: name of a shipped template or a template text (`arena.judges.reward_text`); by default ``reward``, and
            question and answer alone for a word-level vocabulary.
        of: the reply: ``all`` statements for the answer, the ``last`` one, or the ``answer``'s own text.
        scale: nats that one unit of score is worth where answers are compared.
        unargued: score an answer that nobody argued by an empty reply; else the judge abstains.
        lapse: share of the probability that is spread evenly over the answers (`arena.training.calibration`).
        report: what training measured; kept with the judge.

    Where there are no answers, the last statement is scored alone.
    """

    sees_label = False
    kind = "reward-model"

    def __init__(
        self,
        network: RewardNetwork,
        prompt: str | None = None,
        *,
        of: Of = "all",
        scale: float = 1.0,
        unargued: bool = False,
        lapse: float = 0.0,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        if of not in ("all", "last", "answer"):
            raise ConfigError(f"of={of!r}: write all, last or answer")
        if not 0 < scale <= MOST_WEIGHT:
            raise ConfigError(
                f"scale={scale}: a better score must stay better: write a number above 0, at most 1,000,000"
            )
        if not 0 <= lapse < 1:
            raise ConfigError(f"lapse={lapse}: the share of probability that says nothing is 0 or more, and below 1")
        if unargued and of == "answer":
            raise ConfigError("unargued has no effect where the answers themselves are scored: remove it")
        self.network = network
        words = getattr(network.encoder, "one_token_turns", False)
        self.prompt = RewardPrompt(prompt or (WORDS_PROMPT if words else "reward"))
        self.of: Of = of
        self.scale = float(scale)
        self.unargued = unargued
        self.lapse = float(lapse)
        self.report = dict(report or {})
        self._memo: dict[Row, float] = {}
        self.name = f"{self.kind}@{fingerprint({**self.config(), 'kind': self.kind}, network.network.state_dict())}"

    def config(self) -> dict[str, Any]:
        """Arguments beside the network, as they are saved."""
        config = {"prompt": self.prompt.source, "of": self.of, "scale": self.scale, "unargued": self.unargued}
        return {**config, "lapse": self.lapse} if self.lapse else config

    def with_network(self, network: RewardNetwork) -> RewardModelJudge:
        """The same instrument around other weights."""
        return type(self)(network, **self.config(), report=self.report)

    def calibrated(self, scale: float, lapse: float, report: Mapping[str, Any]) -> RewardModelJudge:
        """The same scores with other probabilities; ``report`` is added to what is kept."""
        config = {**self.config(), "scale": scale, "lapse": lapse}
        return type(self)(self.network, **config, report={**self.report, **report})

    # -- what a process reward model does otherwise

    def replies(self, view: JudgeView) -> list[Reply]:
        """What is scored: one reply for each answer, or one alone.

        Raises:
            ConfigError: nothing can be scored.
        """
        return replies_of(view, self.of, unargued=self.unargued)

    def prefixes(self, reply: Reply) -> list[Reply]:
        """The parts of a reply, each read from the beginning, whose scores make up its own."""
        return [reply]

    def outcome(self, scores: Sequence[float]) -> float:
        """The score of a reply from those of its prefixes."""
        return scores[0]

    def evidence(self, scores: Sequence[Sequence[float]]) -> dict[str, Any]:
        """What is kept with a verdict; ``scores`` are those of each reply's prefixes."""
        return {}

    # -- judging

    def row(self, reply: Reply) -> Row:
        """Token ids of a reply with its prompt.

        Raises:
            ConfigError: the text cannot be encoded.
        """
        return self.network.encode(self.prompt.render(reply), reply.text)

    def rows(self, view: JudgeView) -> list[list[Row]]:
        """For each reply of a view the rows of its prefixes.

        Raises:
            ConfigError: nothing can be scored, or a text cannot be encoded.
        """
        return [[self.row(prefix) for prefix in self.prefixes(reply)] for reply in self.replies(view)]

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; equal replies are scored once."""
        if len(self._memo) > MEMO:
            self._memo.clear()
        read = [self._read(view) for view in views]
        wanted = [row for found in read if isinstance(found, list) for rows in found for row in rows]
        new = [row for row in dict.fromkeys(wanted) if row not in self._memo]
        self._memo.update(zip(new, self.network.score(new), strict=True))
        return [
            found if isinstance(found, Verdict) else self._verdict(view, found)
            for view, found in zip(views, read, strict=True)
        ]

    def _read(self, view: JudgeView) -> list[list[Row]] | Verdict:
        try:
            found = self.rows(view)
        except ConfigError as error:
            return abstain(self.name, str(error))
        longest = max(len(row) for rows in found for row in rows)
        limit = self.network.max_length
        if limit is None or longest <= limit:
            return found
        reason = f"the reply takes {longest} tokens and the model reads {limit}"
        return Verdict(VerdictStatus.TRUNCATED, self.name, evidence={"reason": reason, "tokens": longest})

    def _verdict(self, view: JudgeView, rows: Sequence[Sequence[Row]]) -> Verdict:
        scores = [[self._memo[row] for row in prefixes] for prefixes in rows]
        evidence = self.evidence(scores)
        outcomes = [self.outcome(each) for each in scores]
        return scored(self.name, outcomes, evidence, answers=view.compared, scale=self.scale, lapse=self.lapse)

    # -- files

    def save(self, folder: str | Path) -> None:
        """Write ``judge.json`` and the network; ``KIND:path=FOLDER`` reads them back.

        Raises:
            StoreError: the folder cannot be written.
        """
        folder = Path(folder)
        self.network.save(folder / "model")
        lora = hasattr(self.network.network, "peft_config")
        config = {
            "kind": self.kind,
            **self.config(),
            "name": self.name,
            "report": self.report,
            "lora": lora,
            "source": self.network.source if lora else None,
        }
        (folder / "judge.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def read_config(folder: Path, kind: str) -> dict[str, Any]:
    """What ``judge.json`` of a saved judge says.

    Raises:
        ConfigError: the folder holds no judge of that kind.
    """
    try:
        config: dict[str, Any] = json.loads((folder / "judge.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"'{folder}' holds no judge ({error})") from None
    if config.get("kind") != kind:
        raise ConfigError(
            f"'{folder}' holds a judge of kind {config.get('kind')!r}: write {config.get('kind')}:path=..."
        )
    return config


def load_reward_judge(folder: str | Path, make: type[RewardModelJudge], given: Mapping[str, Any]) -> RewardModelJudge:
    """Read a judge that was saved; ``given`` options take the place of saved ones, and make it another instrument.

    Raises:
        ConfigError: the folder holds no such judge, or its files are mixed.
    """
    from arena.judges.reward_opening import load_reward_network

    folder = Path(folder)
    config = read_config(folder, make.kind)
    known, report = config.pop("name"), config.pop("report")
    network = load_reward_network(folder / "model", config.pop("source"), lora=config.pop("lora"))
    del config["kind"]
    judge = make(network, **config, report=report)
    if judge.name != known:
        raise ConfigError(f"the judge in '{folder}' is {judge.name}, but was saved as {known}: files are mixed")
    return make(network, **{**config, **given}, report=report) if given else judge


def reward_model(
    *,
    model: str | dict[str, Any] | None = None,
    path: str | None = None,
    prompt: str | None = None,
    of: Of | None = None,
    scale: Scale | None = None,
    unargued: bool | None = None,
    lapse: Lapse | None = None,
    tile: Tile | None = None,
) -> RewardModelJudge:
    """The judge that a spec names: ``reward-model:model=NAME`` or ``reward-model:path=DIR`` for one that was saved.

    Raises:
        ConfigError: neither or both are given, or there is no such reward model.
    """
    options = {"prompt": prompt, "of": of, "scale": scale, "unargued": unargued, "lapse": lapse}
    return build(
        RewardModelJudge, model, path, tile, {key: value for key, value in options.items() if value is not None}
    )


def build(
    make: type[RewardModelJudge],
    model: str | dict[str, Any] | None,
    path: str | None,
    tile: int | None,
    given: Mapping[str, Any],
) -> RewardModelJudge:
    """A judge of a kind from its spec's arguments; ``given`` are its options."""
    from arena.judges.reward_network import RewardNetwork
    from arena.judges.reward_opening import open_reward_network

    if (model is None) == (path is None):
        raise ConfigError(f"a judge '{make.kind}' needs either model=NAME or path=FOLDER of a saved judge")
    if path is None:
        assert model is not None
        network = open_reward_network(model)
        return make(RewardNetwork(network.network, network.encoder, network.source, tile), **given)
    judge = load_reward_judge(path, make, given)
    if tile is None:
        return judge
    network = judge.network
    return judge.with_network(RewardNetwork(network.network, network.encoder, network.source, tile))
