"""Reading a tournament file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arena.protocols.documents import read_document, validate_model
from arena.tournament.checks import check_tournament
from arena.tournament.config import GENERATIONS, TournamentConfig

__all__ = ["load_tournament"]


def load_tournament(path: Path) -> TournamentConfig:
    """Read a tournament file; what it names that lies beside it counts from its folder.

    Raises:
        SourceError: all faults of the file and of the protocols that it names.
    """
    document = read_document(path)
    config = _beside(path, validate_model(document, TournamentConfig))
    check_tournament(config, document)
    return config


def _beside(path: Path, config: TournamentConfig) -> TournamentConfig:
    """The same with paths that lead from where the user is."""

    def moved(value: Any, endings: tuple[str, ...] = ()) -> Any:
        if not isinstance(value, str) or (endings and not value.endswith(endings)):
            return value
        return str(path.parent / value)

    protocols = (".yaml", ".yml")
    changes: dict[str, Any] = {
        "protocol": moved(config.protocol, protocols),
        "tasks": moved(config.tasks, (".jsonl",)),
        "protocols": {
            name: part.model_copy(update={"protocol": moved(part.protocol, protocols)})
            for name, part in config.protocols.items()
        },
        "arms": {
            name: arm.model_copy(update={"protocol": moved(arm.protocol, protocols)})
            for name, arm in config.arms.items()
        },
    }
    if GENERATIONS in config.agents:
        found = config.agents[GENERATIONS]
        folders = moved(found) if isinstance(found, str) else {name: moved(folder) for name, folder in found.items()}
        changes["agents"] = {**config.agents, GENERATIONS: folders}
    return config.model_copy(update=changes)
