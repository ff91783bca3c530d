"""The distribution: what is in it, and that it runs where the checkout is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSES = ("arena", "protocols", "agents", "judges", "training")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="the tests run without the source tree"),
]

IMPORT_ALL = """
import importlib, json, sys
print(json.dumps({name: importlib.import_module(name).__file__ for name in sys.argv[1:]}))
"""


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Standard output of a command that must succeed, in an environment without PYTHON* variables."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    parts = [str(part) for part in command]
    done = subprocess.run(parts, cwd=cwd, env=clean | env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_source(target: Path) -> Path:
    """A copy of what is under version control or would be, so that building leaves nothing behind here."""
    skip = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "runs", "arena-runs"
    )
    return Path(shutil.copytree(ROOT, target, ignore=skip))


def new_environment(folder: Path) -> Path:
    """The interpreter of an environment with our dependencies and without us."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder).strip()
    # .pth files inside an added folder are not read, so an editable install of this project does not come along.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def install(python: Path, *what: str | Path) -> None:
    flags = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *flags, *what, cwd=python.parent)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_source(tmp_path_factory.mktemp("packaging") / "source")


@pytest.fixture(scope="module")
def dist(source: Path) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = source.parent / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=source.parent)
    return folder


def modules(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for house in HOUSES for path in (root / house).rglob("*.py")}


def data_files(root: Path) -> set[str]:
    """Files beside the modules that are needed at run time: everything in these folders that is not Python."""
    found = {path for house in HOUSES for path in (root / house).rglob("*") if path.is_file() and path.suffix != ".py"}
    return {path.relative_to(root).as_posix() for path in found if "__pycache__" not in path.parts}


def installed_name(path: str) -> str:
    return path if path.startswith("arena/") else f"arena/{path}"


def test_the_wheel_holds_one_namespace_with_every_module_and_data_file(dist: Path, source: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names} == {"arena", "debate_arena-0.1.0.dist-info"}
    inside = {name for name in names if name.startswith("arena/")}
    assert inside == {installed_name(path) for path in modules(source) | data_files(source)}
    data = {"arena/py.typed", "arena/protocols/library/debate.yaml", "arena/protocols/protocol.schema.json"}
    assert data <= inside
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_sdist_holds_what_a_developer_needs(dist: Path, source: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {member.name.partition("/")[2] for member in tar.getmembers() if member.isfile()}
    assert modules(source) | data_files(source) <= names
    tests = {path.relative_to(source).as_posix() for path in (source / "tests").rglob("*.py")}
    assert tests <= names
    assert {"Makefile", ".ci/run", "constraints/cpu.txt", "LICENSE", "README.md", "docs/architecture.md"} <= names


@pytest.mark.parametrize("how", ["wheel", "editable", "editable strict"])
def test_an_installation_runs_outside_the_checkout(how: str, dist: Path, source: Path, tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv")
    if how == "wheel":
        (wheel,) = dist.glob("*.whl")
        install(python, wheel)
    else:
        home = copy_source(tmp_path / "source")  # an editable install leaves its links in build/
        strict = ["--config-settings", "editable_mode=strict"] if how.endswith("strict") else []
        install(python, "--editable", home, *strict)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    paths = {installed_name(path).removesuffix(".py").removesuffix("/__init__") for path in modules(source)}
    names = sorted(path.replace("/", ".") for path in paths - {"arena/__main__"})
    files = json.loads(run(python, "-c", IMPORT_ALL, *names, cwd=elsewhere))
    assert all(Path(file).is_relative_to(tmp_path) for file in files.values())
    arena = python.with_name("arena")
    assert run(arena, "--version", cwd=elsewhere) == "arena 0.1.0\n"
    listed = json.loads(run(arena, "ls", "protocols", "--json", cwd=elsewhere))
    shipped = {path.stem for path in (source / "protocols" / "library").glob("*.yaml")}
    assert {entry["name"] for entry in listed} == shipped
    assert "verdict" in run(arena, "graph", "debate", "--format", "mermaid", cwd=elsewhere)


def test_a_bare_checkout_runs_without_being_installed(source: Path, tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv")
    assert run(python, "-m", "arena", "--version", cwd=source) == "arena 0.1.0\n"
    where = run(python, "-c", "import arena.protocols.errors as e; print(e.__file__)", cwd=source).strip()
    assert Path(where) == source / "protocols" / "errors.py"


def test_every_direct_dependency_has_a_release_in_the_constraints() -> None:
    """What the Makefile installs is the same everywhere, and so are the numbers of the demo."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {line.split(">")[0].split("[")[0].lower() for line in wanted} - {"setuptools", "build"}
    lines = (ROOT / "constraints" / "cpu.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower() for line in lines if "==" in line and not line.startswith("#")}
    assert names <= pinned
