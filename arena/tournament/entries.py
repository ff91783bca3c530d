"""Who takes part: agents by spec, and the generations that a training left in its run directory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.agents import AGENTS
from arena.agents.types import Agent
from arena.protocols.errors import ConfigError
from arena.tournament.config import GENERATIONS, SpecLike

__all__ = ["Entry", "agent_entries", "build_lineup", "entries_of"]

_FOLDER = re.compile(r"gen(\d+)")
_CONTEXT = ("judge", "seed", "tasks")
"""What factories of agents are given."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One that is rated."""

    name: str
    specs: Mapping[str, SpecLike]
    """Role -> spec of the agent that it puts there; ``*`` for all other roles."""
    place: tuple[str, ...] = ()
    """Where in the file it stands, for faults."""

    def spec_of(self, role: str) -> SpecLike:
        """Who sits in a role, or in one of the seats of a counted role.

        Raises:
            ConfigError: nobody does.
        """
        group, _, number = role.rpartition("-")
        for key in (role, group if number.isdecimal() else role, "*"):
            if key in self.specs:
                return self.specs[key]
        raise ConfigError(f"'{self.name}' has no policy for the role '{role}' (it has: {', '.join(self.specs)})")

    def identity(self) -> Any:
        """What decides how it plays, as JSON values."""
        if list(self.specs) == ["*"]:
            return AGENTS.identity(self.specs["*"])
        return {role: AGENTS.identity(spec) for role, spec in self.specs.items()}

    def check(self) -> None:
        """Whether its agents can be built, as far as that is known without loading models.

        Raises:
            UserError: one cannot.
        """
        for spec in self.specs.values():
            AGENTS.check(spec, _CONTEXT)


def entries_of(agents: Mapping[str, SpecLike]) -> dict[str, Entry]:
    """The entries of a tournament file by name, in its order.

    Raises:
        ConfigError: a directory holds no generations, or two entries have one name.
    """
    found: dict[str, Entry] = {}
    for key, value in agents.items():
        for entry in agent_entries(key, value):
            if entry.name in found:
                raise ConfigError(f"two agents are called '{entry.name}'")
            found[entry.name] = entry
    return found


def agent_entries(key: str, value: SpecLike) -> list[Entry]:
    """The entries that one key of ``agents`` stands for: one, or under ``generations`` several.

    Raises:
        ConfigError: a directory holds no generations.
    """
    if key != GENERATIONS:
        return [Entry(key, {"*": value}, ("agents", key))]
    if isinstance(value, str):
        return _generations(Path(value), "", ("agents", key))
    entries = []
    for prefix, folder in value.items():
        if not isinstance(folder, str):
            raise ConfigError(f"{folder!r} is no directory: write PREFIX: DIR, or generations: DIR")
        entries += _generations(Path(folder), f"{prefix}-", ("agents", key, prefix))
    return entries


def _generations(run: Path, prefix: str, place: tuple[str, ...]) -> list[Entry]:
    """Every generation of a training, each with the policies and settings of its recipe."""
    folders = {
        int(match[1]): path
        for path in sorted((run / "generations").glob("gen*"))
        if (match := _FOLDER.fullmatch(path.name)) and path.is_dir()
    }
    recipe = _recipe(run)
    if not folders:
        raise ConfigError(f"{run} holds no generations of a training: give the --out of 'arena train'")
    return [
        Entry(f"{prefix}gen{number}", _policies(recipe, folder), place) for number, folder in sorted(folders.items())
    ]


def _recipe(run: Path) -> Mapping[str, Any]:
    try:
        recipe = json.loads((run / "config.json").read_text(encoding="utf-8"))["recipe"]
        return {"policies": dict(recipe["policies"]), "roles": dict(recipe["roles"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{run} holds no training of policies: give the --out of 'arena train' ({type(error).__name__}: {error})"
        ) from None


def _policies(recipe: Mapping[str, Any], folder: Path) -> dict[str, SpecLike]:
    """Role -> spec; the only policy also sits in roles that the recipe does not know."""
    specs: dict[str, SpecLike] = {}
    for name, policy in recipe["policies"].items():
        specs[name] = {
            "kind": "generation",
            "path": str(folder / name),
            "temperature": float(policy.get("temperature", 1.0)),
            "max_tokens": int(policy.get("max_tokens", 64)),
        }
    by_role = {
        role: specs.get(filler, filler) if isinstance(filler, str) else filler
        for role, filler in recipe["roles"].items()
    }
    return by_role | ({"*": next(iter(specs.values()))} if len(specs) == 1 else {})


def build_lineup(entry: Entry, roles: Sequence[str], build: Callable[[SpecLike], Agent]) -> dict[str, Agent]:
    """The agents of an entry in these roles; equal specs share one agent.

    Raises:
        UserError: an agent cannot be built, or nobody sits in a role.
    """
    built: dict[str, Agent] = {}
    lineup = {}
    for role in roles:
        spec = entry.spec_of(role)
        key = json.dumps(spec, sort_keys=True, default=str)
        if key not in built:
            built[key] = build(spec)
        lineup[role] = built[key]
    return lineup
