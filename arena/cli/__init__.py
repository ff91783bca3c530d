"""The ``arena`` command: one file a verb, each importing what it needs when it runs."""

from arena.cli.app import app, main

__all__ = ["app", "main"]
