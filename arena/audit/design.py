"""How each case is shown: a factorial design in which order, length and family are balanced.

A case is shown four times: two settings of (length, family), each in both orders. The second setting has length and
family the other way round, and whether they go together is balanced over the cases, so no factor is confounded with
another. Order means here that an answer is listed and argued first. Where the order of speaking can be changed, a case
is shown twice more with the two apart: the answer that is listed first is argued last. A probe is shown twice as well:
once in the statement for the right answer, once in that for the wrong one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from arena.audit.material import Case
from arena.audit.wording import PROBES, filler
from arena.judges.types import JudgeView, Statement

__all__ = ["OTHER_FAMILY", "Shown", "presentations", "view_of"]

OTHER_FAMILY = "another family"
"""Stands in `Statement.family` of what the judge's own family did not write."""

_MARGIN = 160
"""Characters, at least, by which the longer side is longer."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One way of showing a case. +1: the right answer has the property; -1: the wrong one; 0: neither or both."""

    order: int
    """+1: the right answer is listed first, and argued first unless ``crossed``."""
    longer: int = 0
    """+1: the statement for the right answer is padded with words that add nothing."""
    own: int = 0
    """+1: the statement for the right answer is by the judge's own family, the other one is not."""
    probe: str = ""
    """Name of one of `PROBES`, or empty."""
    mark: int = 0
    """+1: the probe stands in the statement for the right answer."""
    crossed: bool = False
    """The answer that is listed first is argued last."""

    @property
    def plain(self) -> bool:
        """Whether it is one of those on which accuracy and agreement are measured."""
        return not self.probe and not self.crossed

    @property
    def spoken(self) -> int:
        """+1: the right answer is argued first."""
        return -self.order if self.crossed else self.order

    @property
    def first(self) -> int:
        """Place of the right answer in the view."""
        return 0 if self.order > 0 else 1


def presentations(cases: Sequence[Case], *, families: bool, seed: int) -> list[list[Shown]]:
    """How each case is shown. A case that cannot be edited is shown in both orders and no more.

    Args:
        cases: the material.
        families: whether there is own and other, to be told apart.
        seed: of what is balanced over the cases.
    """
    rng = random.Random(f"audit design {seed}")
    together = _balanced(rng, len(cases))
    orders = {probe: _balanced(rng, len(cases)) for probe in PROBES}
    found = []
    for number, case in enumerate(cases):
        length = int(case.editable)
        own = together[number] * families
        # Without either, the second setting would be the first again.
        settings = [(length, own), (-length, -own)] if length or own else [(0, 0)]
        shown = [Shown(order, *setting) for setting in settings for order in (1, -1)]
        if case.turnable:
            shown += [Shown(order, crossed=True) for order in (1, -1)]
        if case.editable:
            shown += [Shown(orders[probe][number], probe=probe, mark=mark) for probe in PROBES for mark in (1, -1)]
        found.append(shown)
    return found


def _balanced(rng: random.Random, count: int) -> list[int]:
    """+1 and -1 equally often, shuffled."""
    signs = [1, -1] * (count // 2 + 1)
    signs = signs[:count]
    rng.shuffle(signs)
    return signs


def view_of(case: Case, shown: Shown, *, sees_label: bool, family: str = "") -> JudgeView:
    """What the judge reads.

    Args:
        case: the material.
        shown: how.
        sees_label: whether the judge is told the right answer.
        family: of the judge, for judges that know who wrote; statements name it where ``shown.own`` says so.
    """
    right, wrong = case.right, 1 - case.right
    order = (right, wrong) if shown.order > 0 else (wrong, right)
    place = {answer: index for index, answer in enumerate(order)}
    said = _edited(_chosen(case, shown, family), case, shown)
    if not case.held:
        said.sort(key=lambda each: place[each.answer or 0], reverse=shown.crossed)
    return JudgeView(
        key=case.key,
        question=case.question,
        answers=(case.answers[order[0]], case.answers[order[1]]),
        statements=[
            _with(each, answer=None if each.answer is None else place[each.answer], text=each.text) for each in said
        ],
        fields=case.fields,
        label=place[right] if sees_label else None,
        answers_argued=(0, 1),
    )


def _with(said: Statement, *, answer: int | None, text: str) -> Statement:
    # What was added to the text was said too. (dataclasses.replace takes five times as long.)
    words = said.said + text[len(said.text) :] if said.said else ""
    return Statement(said.role, answer, text, said.quotes, words, said.family)


def _chosen(case: Case, shown: Shown, family: str) -> list[Statement]:
    """The statements by those who write in this presentation."""
    if not shown.own:
        return list(case.statements)
    owned = case.right if shown.own > 0 else 1 - case.right
    found = []
    for answer in (0, 1):
        own = answer == owned
        source = case.statements if own or not case.other else case.other
        named = (family if own else OTHER_FAMILY) if family else ""
        found += [replace(each, family=named) for each in source if each.answer == answer]
    return found


def _edited(said: list[Statement], case: Case, shown: Shown) -> list[Statement]:
    """With the words that the presentation adds."""
    added = {0: "", 1: ""}
    if shown.longer:
        longer = case.right if shown.longer > 0 else 1 - case.right
        lengths = [sum(len(each.text) for each in said if each.answer == answer) for answer in (0, 1)]
        margin = max(_MARGIN, min(lengths) // 2)
        added[longer] = filler(margin + max(0, lengths[1 - longer] - lengths[longer]))
    if shown.probe:
        marked = case.right if shown.mark > 0 else 1 - case.right
        added[marked] = PROBES[shown.probe].format(answer=case.answers[marked])
        added[1 - marked] = filler(len(added[marked]))
    for answer, words in added.items():
        if words:
            last = max(index for index, each in enumerate(said) if each.answer == answer and each.text)
            said[last] = _with(said[last], answer=answer, text=said[last].text + words)
    return said
