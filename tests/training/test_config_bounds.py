"""Every number that a recipe may hold is bounded on both sides: none ends in NaN, or in a run that never ends."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

import arena.training
from arena.judges import JUDGES
from arena.protocols.registry import Registry
from arena.training.judge_data import DATA
from arena.training.judge_methods import METHODS
from arena.training.judge_recipes import JudgeTraining
from arena.training.recipe import Recipe
from arena.training.trainers import TRAINERS


def models() -> list[type[BaseModel]]:
    """Everything that the two kinds of recipes are read by."""
    roots: list[Any] = [Recipe, JudgeTraining, *(METHODS.factory(name) for name in METHODS.names())]
    for module in pkgutil.iter_modules(arena.training.__path__):
        if module.name.endswith("_config"):
            found = importlib.import_module(f"arena.training.{module.name}")
            roots += [each for _, each in inspect.getmembers(found, inspect.isclass) if issubclass(each, BaseModel)]
    return list(dict.fromkeys(each for each in roots if each is not BaseModel))


def unbounded(schema: dict[str, Any], where: str) -> Iterator[str]:
    """Places of numbers without a finite smallest or largest value, in a JSON Schema."""
    kind = schema.get("type")
    if kind in ("number", "integer") and "enum" not in schema and "const" not in schema:
        low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf))
        high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
        if not (math.isfinite(low) and math.isfinite(high)):
            yield where
    for name, value in schema.items():
        if isinstance(value, dict):
            yield from unbounded(value, f"{where}.{name}")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, dict):
                    yield from unbounded(item, f"{where}.{name}[{number}]")


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_number_of_a_recipe_is_bounded(model: type[BaseModel]) -> None:
    assert list(unbounded(model.model_json_schema(), model.__name__)) == []


@pytest.mark.parametrize("registry", [JUDGES, TRAINERS, DATA], ids=lambda registry: registry.sort)
def test_every_number_in_arguments_is_bounded(registry: Registry[Any]) -> None:
    """Seeds may be any number; tasks and models are no numbers."""
    from pydantic import PydanticUserError, TypeAdapter

    found = []
    for name in registry.names():
        factory = registry.factory(name)
        for key, parameter in inspect.signature(factory).parameters.items():
            if key in ("seed", "tasks", "test", "model", "progress") or parameter.annotation is inspect.Parameter.empty:
                continue
            try:
                kind = eval(str(parameter.annotation), dict(vars(importlib.import_module(factory.__module__))))
                schema = TypeAdapter(kind).json_schema()
            except (NameError, PydanticUserError):
                continue  # a class of ours
            found += [f"{name}: {place}" for place in unbounded(schema, key)]
    assert found == []
