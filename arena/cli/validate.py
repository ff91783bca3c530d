"""``arena validate``: every fault of every file, one a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.output import AsJson, print_json
from arena.protocols.errors import Fault, SourceError, UserError

__all__ = ["check", "command"]


def _protocol(path: Path) -> str:
    from arena.protocols import load_protocol

    protocol = load_protocol(path)
    own = [role for role in protocol.roles.values() if role.scope is protocol.scope]
    roles, seats = len({role.group for role in own}), len(protocol.roles)
    written = {node.group for node in protocol.nodes.values() if node.scope is protocol.scope}
    written |= {scope.group for scope in protocol.scopes.values() if scope.parent is protocol.scope}
    nodes, all_nodes = len(written), len(protocol.nodes)
    unfolded = f" (unfolded: {seats} and {all_nodes})" if (seats, all_nodes) != (roles, nodes) else ""
    return f"protocol {protocol.name}: {_many(roles, 'role')}, {_many(nodes, 'node')}{unfolded}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _recipe(path: Path) -> str:
    from arena.training.judge_recipes import load_any_recipe

    return f"recipe {load_any_recipe(path).recipe}"


def _tasks(path: Path) -> str:
    from arena.tasks import TASKS

    return f"tasks: {len(TASKS.build({'kind': 'jsonl', 'path': str(path)}).test)} questions"


def _run(path: Path) -> str:
    from arena.agents import AGENTS
    from arena.cli.run import RunFile, beside
    from arena.judges import JUDGES
    from arena.protocols import load_protocol, read_document, validate_model
    from arena.tasks import TASKS

    document = read_document(path)
    file = beside(validate_model(document, RunFile), path)
    faults: list[Fault] = []

    def tried(where: tuple[str, ...], work: Callable[[], object]) -> None:
        try:
            work()
        except SourceError as error:
            faults.extend(error.faults)
        except UserError as error:
            faults.append(document.fault(where, str(error)))

    if file.protocol is not None:
        name, params = file.protocol, file.params
        tried(("protocol",), lambda: load_protocol(name, params))
    if file.tasks is not None:
        spec: Any = {"kind": "jsonl", "path": file.tasks} if file.tasks.endswith(".jsonl") else file.tasks
        tried(("tasks",), lambda: TASKS.check(spec, ("seed",)))
    for role, agent in file.agents.items():
        tried(("agents", role), lambda agent=agent: AGENTS.check(agent, ("judge", "seed", "tasks")))  # type: ignore[misc]
    judges = file.judge if isinstance(file.judge, dict) else {"": file.judge}
    for role, judge in judges.items():
        if judge is not None:
            place = ("judge", role) if role else ("judge",)
            tried(place, lambda judge=judge: JUDGES.check(judge, ("seed",)))  # type: ignore[misc]
    if faults:
        raise SourceError(faults)
    return f"run of {file.protocol}"


def _tournament(path: Path) -> str:
    from arena.tournament import load_tournament
    from arena.tournament.entries import entries_of

    config = load_tournament(path)
    return f"tournament {config.tournament}: {len(entries_of(config.agents))} agents"


# The key by which a file says what it is; a file with none of them is a protocol, or options of `arena run`.
_CHECKS: dict[str, Callable[[Path], str]] = {"recipe": _recipe, "tournament": _tournament}


def check(path: Path) -> str:
    """What a sound file holds, in a few words.

    Raises:
        SourceError: the file has faults.
        UserError: it names something that does not exist.
    """
    if path.suffix == ".jsonl":
        return _tasks(path)
    from arena.protocols import read_document

    data = read_document(path).data
    for key, checked in _CHECKS.items():
        if isinstance(data, dict) and key in data:
            return checked(path)
    if isinstance(data, dict) and "protocol" in data and "nodes" not in data:
        return _run(path)
    return _protocol(path)


def command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Protocols, recipes, tournaments (YAML) or tasks (.jsonl).")
    ],
    as_json: AsJson = False,
) -> None:
    """Check files. Exit 0 if all are sound, else 2 with a line a fault: FILE:LINE:COL: where: what and the way out."""
    faults: list[Fault] = []
    lines: list[str] = []
    for path in files:
        try:
            lines.append(f"{path}: ok: {check(path)}")
        except UserError as error:
            found = error.faults if isinstance(error, SourceError) else (Fault(str(path), 0, 0, "", str(error)),)
            faults += found
            lines += [str(fault) for fault in found]
    if as_json:
        names = ("file", "line", "column", "where", "what")
        found_json = [{name: getattr(fault, name) for name in names} for fault in faults]
        print_json({"ok": not faults, "files": [str(path) for path in files], "faults": found_json})
    else:
        typer.echo("\n".join(lines))
    if faults:
        raise typer.Exit(2)
