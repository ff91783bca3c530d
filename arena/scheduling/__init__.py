"""Who meets whom: schedules of tournaments, by name.

    from arena.scheduling import SCHEDULES, Pairing, State

    @SCHEDULES.register("neighbours", summary="each agent against the next one of the file")
    def neighbours() -> Schedule: ...

A schedule is a pure function of what was played (`arena.scheduling.types`); a tournament file names it, with arguments:
``schedule: swiss`` or ``schedule: {kind: swiss, rounds: 5}``.
"""

from arena.protocols.registry import Registry
from arena.scheduling.types import Pairing, Result, Schedule, State, reach, size

__all__ = ["SCHEDULES", "Pairing", "Result", "Schedule", "State", "reach", "size"]

SCHEDULES: Registry[Schedule] = Registry("schedule")
"""Factories of schedules by name. One that names the parameter ``names`` is given the agents of the file."""

SCHEDULES.lazy("round_robin", "arena.scheduling.fixed:RoundRobin", "every agent against every other")
SCHEDULES.lazy(
    "gauntlet",
    "arena.scheduling.fixed:Gauntlet",
    "newcomers against the pool of all others: gauntlet:new=[NAME]",
    needs=("new",),
)
SCHEDULES.lazy("cross_table", "arena.scheduling.fixed:CrossTable", "every agent against every other and against itself")
SCHEDULES.lazy("swiss", "arena.scheduling.swiss:Swiss", "each round pairs agents of about the same score")
SCHEDULES.lazy("ladder", "arena.scheduling.ladder:Ladder", "neighbours of a ladder meet, and the winner stands higher")
SCHEDULES.lazy(
    "adaptive", "arena.scheduling.informed:Informed", "the pairings that tell most about the ranking a token"
)
