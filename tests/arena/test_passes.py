"""How often what was said passed the checks: counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from arena.passes import pass_rates
from arena.protocols.records import Episode, Task, Turn, TurnStatus
from arena.statistics import wilson

TEXT = """
name: sums
roles:
  solver: {count: 2, sees: [question]}
  marker: {sees: [solution], check: "exact:field=solution"}
nodes:
  solve: {speak: solver}
  mark: {verify: marker, of: solve}
edges:
  - start -> solve -> mark -> end
  - {from: mark, to: solve, times: 1}
"""
TASKS = {f"t{number}": Task(f"t{number}", {}) for number in range(4)}


def mark(number: int, passed: bool | None, **more: Any) -> Turn:
    status = TurnStatus.OK if passed is not None else TurnStatus.TOOL_ERROR
    return Turn(0, 0, f"mark-{number}", "marker", 0, "", None, "", status, fields={"passed": passed}, **more)


def episode(task: int, *turns: Turn, error: str | None = None) -> Episode:
    return Episode(f"e{task}", "sums", f"t{task}", {}, (), list(turns), error=error)


def test_the_last_check_of_an_episode_counts_and_a_group_counts_together(compiled: Any) -> None:
    played = [
        episode(0, mark(1, False), mark(1, True), mark(2, True)),
        episode(1, mark(1, True), mark(1, False)),
        episode(2, mark(1, None)),
        episode(3, error="broken"),
    ]
    (name, rate), *others = pass_rates(compiled(TEXT), played, TASKS).items()
    assert (name, others) == ("mark", [])
    assert rate.checked == 3
    assert rate.interval is not None
    assert rate.interval.value == pytest.approx(2 / 3)
    assert rate.unchecked == {"episode failed": 2, "tool_error": 1}


def test_independent_checks_have_the_interval_of_wilson(compiled: Any) -> None:
    played = [episode(number, mark(1, number > 0)) for number in range(4)]
    assert pass_rates(compiled(TEXT), played, TASKS)["mark"].interval == wilson(3, 4)


def test_where_nothing_was_checked_there_is_no_rate(compiled: Any) -> None:
    rate = pass_rates(compiled(TEXT), [], TASKS)["mark"]
    assert (rate.interval, rate.checked, rate.unchecked) == (None, 0, {})
