"""The shape of the house: what is public, which floor may use which, and what a light import must not load."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import arena
import arena.protocols

PACKAGES = [
    "arena",
    "arena.protocols",
    "arena.agents",
    "arena.judges",
    "arena.tasks",
    "arena.decisions",
    "arena.games",
    "arena.payoffs",
    "arena.ratings",
    "arena.scheduling",
    "arena.store",
    "arena.tournament",
    "arena.truth",
    "arena.training",
    "arena.cli",
]
FLOORS = {"arena.protocols": 1, "arena.agents": 2, "arena.judges": 3, "arena": 4, "arena.training": 5, "arena.cli": 6}
HEAVY = ["torch", "transformers", "peft", "tokenizers", "sklearn", "scipy", "sqlalchemy"]


def floor(module: str) -> int:
    return max((len(prefix), level) for prefix, level in FLOORS.items() if f"{module}.".startswith(f"{prefix}."))[1]


def modules() -> dict[str, Path]:
    """Every module of the installation: dotted name -> file."""
    folders = {"arena": Path(arena.__file__).parent}
    for name in ("protocols", "agents", "judges", "training"):
        folders[f"arena.{name}"] = Path(importlib.import_module(f"arena.{name}").__path__[0])
    found = {}
    for package, folder in folders.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def imports(path: Path) -> list[tuple[str, int]]:
    """(module of ours, line) of every import statement, those inside functions too; type-only imports are no use."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "arena":
            # `from arena import x` may mean a module or a name; only the module form is a dependency.
            found.append((node.module, node.lineno))
        elif isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "arena"]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_declares_public_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    assert all(hasattr(module, name) for name in module.__all__)


def test_imports_go_down_only() -> None:
    upward = [
        f"{name}:{line} imports {target}"
        for name, path in modules().items()
        for target, line in imports(path)
        if floor(target) > floor(name) and name != "arena.__main__"
    ]
    assert upward == []


def test_all_imports_are_absolute() -> None:
    relative = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


@pytest.mark.parametrize(
    "names", ["arena", "arena.protocols", "arena.agents, arena.judges, arena.tasks", "arena.training", "arena.cli"]
)
def test_packages_import_without_anything_heavy(names: str) -> None:
    code = f"import sys, {names}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_floor_one_uses_no_array_or_model_library() -> None:
    """The protocol language is readable and checkable where only light packages are installed."""
    allowed = {
        "arena",
        "jinja2",
        "markupsafe",
        "jsonschema",
        "networkx",
        "re2",
        "referencing",
        "pydantic",
        "pydantic_core",
        "yaml",
    } | sys.stdlib_module_names
    foreign = set()
    for name, path in modules().items():
        if floor(name) == 1:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    foreign.add(node.module.split(".")[0])
                elif isinstance(node, ast.Import):
                    foreign |= {alias.name.split(".")[0] for alias in node.names}
    assert foreign <= allowed
