"""``arena ls``: what there is to name in a file or on a command line."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from arena.cli.output import AsJson, print_json, print_table

__all__ = ["Kind", "command", "names"]


class Kind(StrEnum):
    """What can be listed."""

    PROTOCOLS = "protocols"
    TASKS = "tasks"
    AGENTS = "agents"
    JUDGES = "judges"
    TOOLS = "tools"
    CHECKS = "checks"
    OBJECTIVES = "objectives"
    SCHEDULES = "schedules"
    COVARIATES = "covariates"
    RECIPES = "recipes"


def _protocols() -> dict[str, str]:
    from arena.protocols import library

    return library()


def _tasks() -> dict[str, str]:
    from arena.tasks import TASKS

    return TASKS.names()


def _agents() -> dict[str, str]:
    import arena.judges
    import arena.tasks  # noqa: F401 - both name agents of their own
    from arena.agents import AGENTS

    return AGENTS.names()


def _judges() -> dict[str, str]:
    from arena.judges import JUDGES

    return JUDGES.names()


def _tools() -> dict[str, str]:
    from arena.protocols.programs import TOOLS

    return TOOLS.names()


def _checks() -> dict[str, str]:
    from arena.protocols.programs import CHECKS

    return CHECKS.names()


def _objectives() -> dict[str, str]:
    from arena.training.objectives.catalogue import OBJECTIVES

    return {one.name: f"{one.family}; {one.paper}" for one in OBJECTIVES}


def _schedules() -> dict[str, str]:
    from arena.scheduling import SCHEDULES

    return SCHEDULES.names()


def _covariates() -> dict[str, str]:
    from arena.tournament.covariates import COVARIATES

    return COVARIATES.names()


def _recipes() -> dict[str, str]:
    from arena.training.recipe import recipes

    return recipes()


_LISTS: dict[Kind, Callable[[], dict[str, str]]] = {
    Kind.PROTOCOLS: _protocols,
    Kind.TASKS: _tasks,
    Kind.AGENTS: _agents,
    Kind.JUDGES: _judges,
    Kind.TOOLS: _tools,
    Kind.CHECKS: _checks,
    Kind.OBJECTIVES: _objectives,
    Kind.SCHEDULES: _schedules,
    Kind.COVARIATES: _covariates,
    Kind.RECIPES: _recipes,
}


def names(kind: Kind) -> dict[str, str]:
    """Name -> one-line summary of everything of that kind."""
    return _LISTS[kind]()


def command(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="protocols, tasks, agents, judges, tools, checks, objectives, schedules, covariates or recipes.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """List what files and options may name."""
    rows = _objective_rows() if kind is Kind.OBJECTIVES else [{"name": n, "summary": s} for n, s in names(kind).items()]
    if as_json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _objective_rows() -> list[dict[str, Any]]:
    from arena.training.objectives.catalogue import OBJECTIVES

    return [one._asdict() for one in OBJECTIVES]
