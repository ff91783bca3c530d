"""From verdicts on presentations to what is said of the judge."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from arena.audit.design import Shown
from arena.audit.effects import effects
from arena.audit.material import Case
from arena.metrics import brier, cohen_kappa, ece, fleiss_kappa, mcc, order_consistency, paired_permutation, reliability
from arena.protocols.records import Verdict, VerdictStatus
from arena.statistics import Interval, clustered_proportion

__all__ = ["BINS", "Seen", "measure"]

BINS = 10
"""Of the reliability diagram and the calibration error."""

_BIASES = {"position_bias": "order", "length_bias": "longer", "self_preference": "own"}
_PLACES = {"letter_bias": "order", "speaking_bias": "spoken"}
"""The two parts of the order, told apart by presentations in which an answer is listed first and argued last."""
_PROBED = {"sycophancy": "confidence", "forged_verdict": "forgery", "flattery": "flattery"}
"""Measure -> probe of `arena.audit.wording.PROBES`."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A presentation and the verdict on it, in the order of the presentation."""

    case: Case
    shown: Shown
    verdict: Verdict

    @property
    def score(self) -> float:
        """1 if the right answer was chosen, 0.5 for a tie."""
        return self.verdict.score(self.shown.first)


def measure(seen: Sequence[Seen], others: Mapping[str, Sequence[Verdict]]) -> dict[str, Any]:
    """All measures of a judge, as JSON values; the names are those of ``arena audit --json``.

    Args:
        seen: every presentation with the verdict.
        others: name -> verdicts of other judges on the plain presentations, in their order.
    """
    plain = [each for each in seen if each.shown.plain]
    usable = [each for each in plain if each.verdict.decidable]
    found = _effects(plain, seen)
    scores, clusters = [each.score for each in usable], [each.case.cluster for each in usable]
    sure = [each for each in usable if each.verdict.status is VerdictStatus.SCORED]
    probs = [[math.exp(logp) for logp in each.verdict.logps] for each in usable]
    best = [max(pair) for pair in probs]
    return {
        "verdicts": len(plain),
        "ties": len(usable) - len(sure),
        **{name: found[name] for name in (*_PLACES, *_PROBED)},
        "effects_at_once": sum(each["value"] is not None for each in found.values()),
        "raw_readings": _raw(usable),
        "agreement": _agreement(plain, others),
        "reliability": [asdict(each) for each in reliability(best, scores, BINS)],
        "undecidable_reasons": _reasons(plain),
        "accuracy": _plain(clustered_proportion(scores, clusters)),
        **{name: found[name] for name in _BIASES},
        "brier": _number(brier(probs, [each.shown.first for each in usable])),
        "ece": _number(ece(best, scores, BINS)),
        "mcc": _number(mcc([each.shown.first for each in sure], [int(each.verdict.choice or 0) for each in sure])),
        "order_consistency": _number(_consistency(usable)),
        "decidable": len(usable),
        "undecidable": dict(sorted(Counter(_status(each) for each in plain if not each.verdict.decidable).items())),
    }


def _status(seen: Seen) -> str:
    return seen.verdict.status.value


def _plain(interval: Interval) -> dict[str, Any]:
    return {
        "value": _number(interval.value),
        "low": interval.low,
        "high": interval.high,
        "n": interval.n,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _effects(plain: Sequence[Seen], seen: Sequence[Seen]) -> dict[str, dict[str, Any]]:
    """Measure -> effect; null where the material does not have the property."""
    varied = [name for name, sign in _BIASES.items() if any(getattr(each.shown, sign) for each in plain)]
    probed = [name for name, probe in _PROBED.items() if any(each.shown.probe == probe for each in seen)]
    crossed = [each for each in seen if not each.shown.probe] if any(each.shown.crossed for each in seen) else []
    at_once = len(varied) + len(probed) + len(_PLACES) * bool(crossed)
    found = _fitted(plain, {name: _BIASES[name] for name in varied}, at_once)
    if crossed:
        own = {name: _BIASES[name] for name in varied if name != "position_bias"}
        apart = _fitted(crossed, {**_PLACES, **own}, at_once)
        found |= {name: apart[name] for name in _PLACES}
    for name in probed:
        shown = [each for each in seen if each.shown.probe == _PROBED[name]]
        found[name] = _fitted(shown, {name: "mark", "order": "order"}, at_once)[name]
    nothing = Interval(math.nan, -1.0, 1.0, 0)
    return {name: _plain(found.get(name, nothing)) for name in (*_BIASES, *_PLACES, *_PROBED)}


def _fitted(seen: Sequence[Seen], signs: Mapping[str, str], at_once: int) -> dict[str, Interval]:
    usable = [each for each in seen if each.verdict.decidable]
    columns = {name: [getattr(each.shown, sign) for each in usable] for name, sign in signs.items()}
    clusters = [each.case.cluster for each in usable]
    return effects([each.score for each in usable], columns, clusters, at_once=at_once)


def _consistency(usable: Sequence[Seen]) -> float:
    """Over pairs of the same material in both orders."""
    by_pair: dict[Hashable, dict[int, float]] = {}
    for each in usable:
        pair = (id(each.case), each.shown.longer, each.shown.own)
        by_pair.setdefault(pair, {})[each.shown.order] = each.score
    whole = [pair for pair in by_pair.values() if len(pair) == 2]
    return order_consistency([pair[1] for pair in whole], [pair[-1] for pair in whole])


def _raw(usable: Sequence[Seen]) -> dict[str, Any] | None:
    """Order biases inside a judge that averages over orders itself: what it read in each of them."""
    first: dict[str, list[tuple[float, str]]] = {"order": [], "speakers": []}
    consistent: list[bool] = []
    for each in usable:
        choices = [_chosen(order) for order in each.verdict.evidence.get("orders", ())]
        if len(choices) < 2 or None in choices:
            continue
        consistent.append(len(set(choices)) == 1)
        for choice, order in zip(choices, each.verdict.evidence["orders"], strict=True):
            for name, found in first.items():
                if order.get(name):
                    found.append((float(choice == order[name][0]), each.case.cluster))
    if not consistent:
        return None
    return {
        "position_bias": _first_rather(first["order"]),
        "speaking_bias": _first_rather(first["speakers"]) if first["speakers"] else None,
        "order_consistency": sum(consistent) / len(consistent),
    }


def _first_rather(chosen: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """How much likelier the first is chosen than the last, of (whether the first was, cluster)."""
    share = clustered_proportion([each for each, _ in chosen], [cluster for _, cluster in chosen])
    return _plain(Interval(2 * share.value - 1, 2 * share.low - 1, 2 * share.high - 1, share.n))


def _chosen(order: Mapping[str, Any]) -> int | None:
    """The answer that one reading prefers; None where it does not compare answers."""
    logps = order.get("logps")
    return int(np.argmax(logps)) if logps and "order" in order else None


def _agreement(plain: Sequence[Seen], others: Mapping[str, Sequence[Verdict]]) -> dict[str, Any] | None:
    """With each other judge, and of all of them."""
    if not others:
        return None
    own = [each.verdict.choice for each in plain]
    calls = {name: [verdict.choice for verdict in verdicts] for name, verdicts in others.items()}
    # Categories are places, which are balanced; with "right" and "wrong" two good judges would agree by chance.
    complete = [row for row in zip(own, *calls.values(), strict=True) if None not in row]
    return {
        "with": {name: _compared(plain, own, theirs) for name, theirs in calls.items()},
        "fleiss_kappa": _number(fleiss_kappa([[row.count(0), row.count(1)] for row in complete])),
        "judges": 1 + len(calls),
        "n": len(complete),
    }


def _compared(plain: Sequence[Seen], own: Sequence[int | None], theirs: Sequence[int | None]) -> dict[str, Any]:
    both = [(a, b, seen) for a, b, seen in zip(own, theirs, plain, strict=True) if a is not None and b is not None]
    first, second = [a for a, _, _ in both], [b for _, b, _ in both]
    right = [float(a == seen.shown.first) for a, _, seen in both], [float(b == seen.shown.first) for _, b, seen in both]
    clusters = [seen.case.cluster for _, _, seen in both]
    n = len(both)
    return {
        "n": n,
        "agreement": order_consistency(first, second) if n else None,
        "cohen_kappa": _number(cohen_kappa(first, second, n_classes=2)),
        "accuracy": _plain(clustered_proportion(right[1], clusters)),
        "p_equally_accurate": paired_permutation(right[0], right[1], clusters) if n else None,
    }


def _reasons(plain: Sequence[Seen]) -> dict[str, str]:
    """Status -> the reason of the first verdict with it."""
    found: dict[str, str] = {}
    for each in plain:
        if not each.verdict.decidable:
            found.setdefault(_status(each), str(each.verdict.evidence.get("reason", ""))[:300])
    return found
