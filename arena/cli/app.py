"""The frame around the verbs: where they are listed, and how whatever goes wrong is told.

Exit codes: 0 done, 1 a fault of a model, the machine or this program, 2 a mistake of the user, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import arena
from arena.cli import (
    audit,
    demo,
    doctor,
    export,
    graph,
    judge,
    ls,
    ratings,
    report,
    run,
    schema,
    tournament,
    train,
    validate,
)
from arena.cli.output import print_json
from arena.cli.plugins import load_plugin
from arena.protocols.errors import ArenaError, UserError

__all__ = ["app", "main"]


class Terminated(KeyboardInterrupt):
    """SIGTERM: to stop as on Ctrl-C, so that a process that was started is not left behind."""


class Frame(TyperGroup):
    """Tells faults in one message; ``ARENA_TRACEBACK=1`` shows where they were raised.

    With ``--json`` standard output gets the message too, so that it holds one JSON document whatever happened.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the verb.

        Raises:
            typer.Exit: with the exit code of what went wrong.
        """
        as_json = "--json" in (*getattr(ctx, "_protected_args", ()), *ctx.args)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a closed pipe shows here, not while Python shuts down
            return result
        except KeyboardInterrupt as error:
            raise _exit(
                "interrupted; what was finished is kept, and --resume goes on from there",
                143 if isinstance(error, Terminated) else 130,
                as_json,
            ) from None
        except BrokenPipeError:
            # Whoever read our output has seen enough; nothing is left to say, not even at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except (ArenaError, OSError) as error:
            if os.environ.get("ARENA_TRACEBACK") or not (
                isinstance(error, ArenaError) or error.filename or _full(error)
            ):
                raise
            raise _exit(_message(error), 2 if isinstance(error, UserError | OSError) else 1, as_json) from None
        except Exception as error:
            if as_json and not isinstance(error, typer.Exit | typer.Abort):
                usage = getattr(error, "format_message", None)  # click's, which prints itself
                message = usage() if usage else f"{type(error).__name__}: {error}"
                _print_error(message, getattr(error, "exit_code", 1))
            raise


def _exit(message: str, code: int, as_json: bool) -> typer.Exit:
    typer.echo(message, err=True)
    if as_json:
        _print_error(message, code)
    return typer.Exit(code)


def _print_error(message: str, code: int) -> None:
    with contextlib.suppress(OSError):  # the error may be that nobody reads
        print_json({"error": message, "exit_code": code})
        sys.stdout.flush()


_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def _full(error: OSError) -> bool:
    """Whether the machine has run out of something: no bug, though no file is named."""
    return error.errno in _EXHAUSTED


def _message(error: ArenaError | OSError) -> str:
    if isinstance(error, ArenaError):
        return str(error)
    what = (error.strerror or "cannot be used").lower()
    told = f"{error.filename}: {what}" if error.filename else what
    return f"{told}; what was finished is kept, and --resume goes on from there" if _full(error) else told


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


for _verb in (demo, run, tournament, train, judge, audit, ratings, report, export, ls, validate, graph, schema, doctor):
    app.command(_verb.__name__.rpartition(".")[2])(_verb.command)


def main() -> None:
    """Entry point of the ``arena`` command."""
    _open_streams()
    signal.signal(signal.SIGTERM, _terminate)
    app()


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def _open_streams() -> None:
    """Standard streams that are there and take every character, as what models say may hold any."""
    spare = os.open(os.devnull, os.O_RDWR)
    while spare <= 2:  # a closed stream's number would go to the next file, and what is printed into that file
        spare = os.open(os.devnull, os.O_RDWR)
    os.close(spare)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
