"""``arena schema``: the JSON Schema of a file, for editors that complete and check while you type."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from arena.cli.output import print_json

__all__ = ["command"]


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Kind(StrEnum):
    """Files that have a schema."""

    PROTOCOL = "protocol"
    RECIPE = "recipe"
    JUDGE_RECIPE = "judge-recipe"
    TOURNAMENT = "tournament"
    RUN = "run"


def command(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="protocol, recipe, judge-recipe, tournament or run.")],
) -> None:
    """Print the JSON Schema of protocol, recipe, judge-recipe, tournament or run files.

    In an editor with the YAML language server, put `# yaml-language-server: $schema=FILE` on the first line.
    """
    print_json(_schema(kind))


def _schema(kind: Kind) -> dict[str, Any]:
    if kind is Kind.PROTOCOL:
        from arena.protocols.schema import protocol_schema

        return protocol_schema()
    if kind is Kind.JUDGE_RECIPE:
        from arena.training.judge_recipes import judge_recipe_schema

        return {"$schema": _DIALECT, **judge_recipe_schema()}
    return {"$schema": _DIALECT, **_model(kind).model_json_schema()}


def _model(kind: Kind) -> type[BaseModel]:
    if kind is Kind.RECIPE:
        from arena.training.recipe import Recipe

        return Recipe
    if kind is Kind.TOURNAMENT:
        from arena.tournament import TournamentConfig

        return TournamentConfig
    from arena.cli.run import RunFile

    return RunFile
