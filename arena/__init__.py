"""debate-arena: multi-agent debate and self-play with language models, from one YAML protocol."""

from pathlib import Path as _Path

# In a checkout the sibling folders (protocols/, agents/, ...) are arena.protocols, arena.agents, ...
# An installation has them inside this folder already. Links are not followed: a strict editable install is links.
_root = _Path(__file__).absolute().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "protocols" / "records.py").is_file():
    __path__.append(str(_root))

__version__ = "0.1.0"
__all__ = ["__version__"]
