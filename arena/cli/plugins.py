"""Import a user's own file or module before a verb runs, so that what it registers can be named."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from arena.protocols.errors import ConfigError

__all__ = ["load_plugin"]


def load_plugin(name: str) -> None:
    """Import ``name``: a path that ends in ``.py``, or a module on the import path.

    Raises:
        ConfigError: there is no such file or module. What the plugin itself raises comes through as it is.
    """
    if not name.endswith(".py"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
                raise
            raise ConfigError(
                f"--plugin {name}: no such module; a file is written with its ending: {name}.py"
            ) from None
        return
    path = Path(name).resolve()
    if not path.is_file():
        raise ConfigError(f"--plugin {name}: there is no such file")
    module_name = f"arena_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None  # a .py file always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickle look a class's module up
    spec.loader.exec_module(module)
