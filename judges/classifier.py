"""A trained judge that sees which words were quoted, and nothing else: Irving et al. 2018 (1805.00899), section 3.1.

Input: one column a word, 1 where it was quoted. Network: two hidden layers with ReLU, one logit a label. The verdict is
the softmax restricted to the two (or more) answers in dispute. The order of quotes and who made them do not matter.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arena.judges.fingerprint import fingerprint
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus

if TYPE_CHECKING:  # loaded where a network is used: a check of arguments can do without
    import torch
    from torch import Tensor, nn

__all__ = ["ClassifierJudge", "classifier_network", "load_classifier"]

TILE = 128
"""Rows of every matrix product. A product's last bits depend on its shape: with one shape, never on the batch."""


def classifier_network(items: int, labels: int, hidden: int = 128, *, generator: torch.Generator) -> nn.Sequential:
    """Items -> hidden -> hidden -> labels with ReLU, Kaiming-uniform weights drawn from ``generator``."""
    import torch
    from torch import nn

    sizes = [items, hidden, hidden, labels]
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        # On "meta" the layer does not draw its own start from the global generator.
        layer = nn.Linear(fan_in, fan_out, device="meta").to_empty(device="cpu")
        bound = fan_in**-0.5
        with torch.no_grad():
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


NO_LABEL, NO_ANSWER = -1, -2
"""Columns behind the labels: an answer that the judge does not know, and no answer at all."""


class ClassifierJudge:
    """A network over quoted words.

    Args:
        network: maps (B, items) to (B, labels) logits, float32; not changed, not shared with a trainer.
        items: the word of each input column.
        labels: the answer of each logit.
        reads: task field whose words count as quoted where the judge's role may see it.
        report: what training measured; kept with the judge.

    A quote that is no item is listed in the verdict's evidence; an answer that is no label makes the judge abstain.
    """

    sees_label = False

    def __init__(
        self,
        network: nn.Module,
        items: Sequence[str],
        labels: Sequence[str],
        *,
        reads: str = "evidence",
        report: Mapping[str, Any] | None = None,
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.items = tuple(items)
        self.labels = tuple(labels)
        self.reads = reads
        self.report = dict(report or {})
        self._column = {word: index for index, word in enumerate(self.items)}
        self._label = {word: index for index, word in enumerate(self.labels)}
        self.name = f"classifier@{fingerprint(self._config(), network.state_dict())}"

    def _config(self) -> dict[str, Any]:
        return {"kind": "classifier", "items": self.items, "labels": self.labels, "reads": self.reads}

    def class_logps(self, hot_BI: NDArray[np.float32]) -> NDArray[np.float32]:
        """Log-probabilities in nats over all labels, (B, labels), for multi-hot rows (B, items)."""
        import torch

        rows = len(hot_BI)
        padded_BI = np.zeros((max(1, -(-rows // TILE)) * TILE, len(self.items)), dtype=np.float32)
        padded_BI[:rows] = hot_BI
        with torch.inference_mode():
            tiles = torch.split(torch.from_numpy(padded_BI), TILE)
            logps = [torch.log_softmax(self.network(tile), dim=1) for tile in tiles]
        found: NDArray[np.float32] = torch.cat(logps).numpy()[:rows]
        return found

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; equal quotes are put through the network once."""
        if not views:
            return []
        row_of: dict[tuple[str, ...], int] = {}
        rows = []
        for view in views:
            words = view.quotes()
            if self.reads in view.fields:
                words = [*words, *view.fields[self.reads]]
            key = tuple(words)
            row = row_of.get(key)
            if row is None:
                row = row_of[key] = len(row_of)
            rows.append(row)
        unknown: dict[int, list[str]] = {}
        logps_UL = self.class_logps(self._encode(row_of, unknown))
        width = max(len(view.answers) for view in views)
        label = self._label.get
        columns = [[label(answer, NO_LABEL) for answer in view.answers] for view in views]
        for view_columns in columns:
            view_columns.extend([NO_ANSWER] * (width - len(view_columns)))
        columns_BA = np.array(columns, dtype=np.int64).reshape(len(views), width)
        restricted = _restrict(logps_UL, np.array(rows), columns_BA)
        return [
            self._verdict(view, logps, unknown.get(row))
            for view, logps, row in zip(views, restricted, rows, strict=True)
        ]

    def _encode(self, row_of: Mapping[tuple[str, ...], int], unknown: dict[int, list[str]]) -> NDArray[np.float32]:
        column = self._column
        hot = np.zeros((len(row_of), len(self.items)), dtype=np.float32)
        rows: list[int] = []
        columns: list[int] = []
        for words, row in row_of.items():
            known = [column[word] for word in words if word in column]
            columns += known
            rows += [row] * len(known)
            if len(known) != len(words):
                unknown[row] = [word for word in words if word not in column]
        hot[rows, columns] = 1.0
        return hot

    def _verdict(self, view: JudgeView, logps: tuple[float, ...], unknown: list[str] | None) -> Verdict:
        count = len(view.answers)
        logps = logps[:count]
        if count < 2 or logps[0] != logps[0]:  # NaN: an answer that is no label
            return abstain(self.name, self._reason(view))
        tied = logps[0] == logps[1] if count == 2 else logps.count(max(logps)) > 1
        status = VerdictStatus.TIE if tied else VerdictStatus.SCORED
        return Verdict(status, self.name, logps, None, {"unknown": unknown} if unknown else {})

    def _reason(self, view: JudgeView) -> str:
        missing = [answer for answer in view.answers if answer not in self._label]
        if missing:
            return f"answer {missing[0]!r} is none of the judge's {len(self.labels)} labels"
        if len(view.answers) < 2:
            return f"there is nothing to decide between {len(view.answers)} answers"
        return "a log-prob is not finite"

    def save(self, folder: str | Path) -> None:
        """Write ``judge.json`` and ``judge.safetensors``; `load_classifier` reads them back."""
        from safetensors.torch import save_file
        from torch import nn

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        hidden = next(layer.out_features for layer in self.network.children() if isinstance(layer, nn.Linear))
        config = {**self._config(), "hidden": hidden, "name": self.name, "report": self.report}
        save_file(
            {key: value.contiguous() for key, value in self.network.state_dict().items()}, folder / "judge.safetensors"
        )
        (folder / "judge.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def _restrict(logps_UL: NDArray[np.float32], rows_B: NDArray[np.int64], columns_BA: NDArray[np.int64]) -> list[Any]:
    """Renormalise over each view's answers. `NO_LABEL` makes its row NaN; `NO_ANSWER` only fills up."""
    extended = np.concatenate([logps_UL.astype(np.float64), np.tile([-np.inf, np.nan], (len(logps_UL), 1))], axis=1)
    chosen_BA = extended[rows_B[:, None], columns_BA]
    top_B1 = chosen_BA.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        total_B1 = top_B1 + np.log(np.exp(chosen_BA - top_B1).sum(axis=1, keepdims=True))
        found: list[Any] = list(map(tuple, (chosen_BA - total_B1).tolist()))
    return found


def load_classifier(path: str) -> ClassifierJudge:
    """Read a judge that `ClassifierJudge.save` wrote.

    Raises:
        ConfigError: the folder holds no such judge, or its weights do not match its name.
    """
    import torch
    from safetensors.torch import load_file

    folder = Path(path)
    try:
        config = json.loads((folder / "judge.json").read_text(encoding="utf-8"))
        weights: dict[str, Tensor] = load_file(folder / "judge.safetensors")
    except (OSError, ValueError) as error:
        raise ConfigError(f"'{folder}' holds no classifier judge ({error}): train one, or give its folder") from None
    if config.get("kind") != "classifier":
        raise ConfigError(f"'{folder}' holds a judge of kind {config.get('kind')!r}, not a classifier")
    network = classifier_network(
        len(config["items"]), len(config["labels"]), config["hidden"], generator=torch.Generator().manual_seed(0)
    )
    network.load_state_dict(weights)
    judge = ClassifierJudge(network, config["items"], config["labels"], reads=config["reads"], report=config["report"])
    if judge.name != config["name"]:
        raise ConfigError(
            f"the judge in '{folder}' is {judge.name}, but was saved as {config['name']}: files are mixed"
        )
    return judge
