"""The frame around the verbs: where they are listed, and how whatever goes wrong is told.

Exit codes: 0 done, 1 a fault of a model, the machine or this program, 2 a mistake of the user, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import arena
from arena.cli import demo, doctor, export, graph, ls, ratings, report, run, schema, tournament, train, validate
from arena.cli.plugins import load_plugin
from arena.protocols.errors import ArenaError, UserError

__all__ = ["app", "main"]


class Frame(TyperGroup):
    """Tells faults in one message; ``ARENA_TRACEBACK=1`` shows where they were raised."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb.

        Raises:
            typer.Exit: with the exit code of what went wrong.
        """
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a closed pipe shows here, not while Python shuts down
            return result
        except KeyboardInterrupt:
            typer.echo("interrupted; what was finished is kept, and --resume goes on from there", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever read our output has seen enough; nothing is left to say, not even at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except (ArenaError, OSError) as error:
            if os.environ.get("ARENA_TRACEBACK") or not (isinstance(error, ArenaError) or error.filename):
                raise
            typer.echo(_message(error), err=True)
            raise typer.Exit(2 if isinstance(error, UserError | OSError) else 1) from None


def _message(error: ArenaError | OSError) -> str:
    if isinstance(error, OSError) and not isinstance(error, ArenaError):
        return f"{error.filename}: {(error.strerror or 'cannot be used').lower()}"
    return str(error)


app = typer.Typer(
    cls=Frame,
    name="arena",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Debate and self-play with language models: one YAML protocol drives runs, judges, tournaments and training.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"arena {arena.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin", metavar="FILE|MODULE", help="Import this first: your own agents, judges or tasks. Repeatable."
        ),
    ] = None,
) -> None:
    for name in plugin or ():
        load_plugin(name)


for _verb in (demo, run, tournament, train, ratings, report, export, ls, validate, graph, schema, doctor):
    app.command(_verb.__name__.rpartition(".")[2])(_verb.command)


def main() -> None:
    """Entry point of the ``arena`` command."""
    app()
