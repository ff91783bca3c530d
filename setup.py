"""Five top-level folders install as one namespace, `arena` (see docs/architecture.md)."""

from pathlib import Path

from setuptools import setup

HOUSES = ("protocols", "agents", "judges", "training")


def packages() -> dict[str, str]:
    """Package name -> folder, for every folder that holds an ``__init__.py``."""
    found = {}
    for house in ("arena", *HOUSES):
        for init in sorted(Path(house).rglob("__init__.py")):
            folder = init.parent.as_posix()
            name = folder.replace("/", ".")
            found[name if house == "arena" else f"arena.{name}"] = folder
    return found


PACKAGES = packages()
setup(packages=list(PACKAGES), package_dir=PACKAGES)
