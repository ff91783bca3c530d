"""Whether a run may go on under a configuration: what is the same, what differs, what may have grown."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from arena.protocols.errors import ConfigError

__all__ = ["canonical", "differences", "fingerprint_of", "grown", "growth_of", "plain_json"]

Config = dict[str, Any]


def plain_json(value: Any, what: str) -> str:
    """JSON with sorted keys and without spaces.

    Raises:
        ConfigError: JSON cannot hold it; ``what`` names it.
    """
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} cannot be stored as JSON: {error}") from error


def canonical(config: Mapping[str, Any]) -> str:
    """A configuration as it is stored and compared.

    Raises:
        ConfigError: JSON cannot hold it.
    """
    return plain_json(dict(config), "the configuration of the run")


def fingerprint_of(kind: str, text: str) -> str:
    """SHA-256 of a kind of run and its `canonical` configuration."""
    return hashlib.sha256(f"{kind}\n{text}".encode()).hexdigest()


def growth_of(old: Mapping[str, Any], new: Mapping[str, Any], grows: Collection[str]) -> Config:
    """Name -> its keys that are new, of the dicts that may grow, which may also be new themselves; empty where nothing
    has grown."""
    growth = {}
    for name in grows:
        before, after = old.get(name, {}), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict) and (added := after.keys() - before.keys()):
            growth[name] = {key: after[key] for key in sorted(added)}
    return growth


def grown(config: Mapping[str, Any], growths: Iterable[Mapping[str, Any]]) -> Config:
    """The configuration after all that was added to it."""
    result = copy.deepcopy(dict(config))
    for growth in growths:
        for name, added in growth.items():
            result.setdefault(name, {}).update(added)
    return result


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """``name: old -> new`` for every leaf that differs, with dotted names."""
    if isinstance(old, dict) and isinstance(new, dict):
        changes = []
        for key in sorted(old.keys() | new.keys()):
            place = f"{name}.{key}" if name else key
            changes += differences(old.get(key, _ABSENT), new.get(key, _ABSENT), place)
        return changes
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [change for index, (a, b) in pairs for change in differences(a, b, f"{name}[{index}]")]
    return [] if old == new and type(old) is type(new) else [f"{name}: {_short(old)} -> {_short(new)}"]


class _Absent:
    """A key that one side lacks."""


_ABSENT = _Absent()


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."
