"""What a tournament found, in words and parts of a report: from its stored series ``ratings`` and ``analysis``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena.ratings import Rating
from arena.report.data import Part
from arena.report.strength import (
    comparison_part,
    online_part,
    payoff_part,
    protocol_part,
    rounds_part,
    seat_part,
    sprt_part,
)
from arena.report.truth import arms_part, calibration_part, covariate_part, honesty_part, judges_part
from arena.report.values import Plain, points_text, real
from arena.statistics import Interval

__all__ = ["analysis_parts", "how_rated", "mixture_of", "tournament_lead"]


def analysis_parts(analysis: Plain, ratings: Sequence[Plain] = ()) -> list[Part]:
    """Every finding that a tournament has stored: who is better, then what is true, then how it was judged.

    Args:
        analysis: the series of that name.
        ratings: rows of the rating table.
    """
    found = [
        comparison_part(analysis.get("compared") or ()),
        sprt_part(analysis.get("sprt") or ()),
        seat_part(analysis.get("roles") or {}),
        protocol_part(analysis.get("protocols") or {}),
        payoff_part(analysis.get("payoffs") or {}),
        arms_part(analysis.get("arms") or (), analysis.get("gap_recovered") or (), analysis.get("arms_compared") or ()),
        honesty_part(
            analysis.get("truth") or (), analysis.get("persuasion_correlation"), analysis.get("honesty") or {}
        ),
        judges_part(analysis.get("judges") or ()),
        calibration_part(analysis.get("calibration") or ()),
        covariate_part(analysis.get("covariates") or {}, ratings),
        online_part(analysis.get("online") or {}),
        rounds_part(analysis.get("rounds") or ()),
    ]
    return [part for part in found if part is not None]


def mixture_of(analysis: Plain) -> dict[str, float]:
    """Agent -> share of the mixture that nobody beats; empty where it is not known."""
    payoffs = analysis.get("payoffs") or {}
    return {name: real(share) for name, share in (payoffs.get("nash") or {}).items()}


def tournament_lead(ratings: Sequence[Rating], anchor: str | None) -> str:
    """Who leads, and how sure that is."""
    if not ratings:
        return ""
    best = ratings[0]
    points = points_text(Interval(best.elo, best.low, best.high, best.games))
    told = f"{best.name} is rated highest of {len(ratings)} agents"
    if best.name != anchor:
        told += f", at {points} Elo points {f'from {anchor}' if anchor else 'from the mean'}"
    if best.rank_high == 1:
        return f"{told}. At 95 % it is alone in the first place."
    if best.rank_high > 1:
        rivals = [rating.name for rating in ratings[1:] if rating.rank_low == 1]
        who = f"; {_listed(rivals)} may be as good" if rivals else ""
        return f"{told}. That it is the best is not certain: at 95 % its place is 1 to {best.rank_high}{who}."
    return f"{told}."


def _listed(names: Sequence[str], most: int = 3) -> str:
    """Some names, and how many more there are."""
    shown, rest = list(names[:most]), len(names) - most
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def how_rated(config: Mapping[str, Any], ratings: Sequence[Rating]) -> str:
    """How ratings and their intervals were made, in one or two sentences."""
    ties = "ties count half" if config.get("ties") == "half" else "ties have a probability of their own"
    profile = config.get("intervals") == "profile"
    interval = "profile likelihood, adjusted for questions" if profile else "bootstrap clustered by question"
    known = any(math.isfinite(rating.low) for rating in ratings)
    told = f"Bradley-Terry, {ties}" + (f"; intervals: {interval}." if known else ".")
    if any(rating.rank_low for rating in ratings):
        told += " A rank is all places that the results allow at 95 %."
    return told
