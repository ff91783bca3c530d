"""The ``arena`` command: one file a verb, each importing what it needs when it runs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``arena`` command.

    Nothing is imported before it, so that Ctrl-C in the first moments too ends in one line and exit code 130. Once a
    verb has begun, the frame of `arena.cli.app` tells it.
    """
    try:
        from arena.cli.app import main as run

        run()
    except KeyboardInterrupt:
        message = "interrupted before anything was begun"
        print(message, file=sys.stderr)
        if "--json" in sys.argv:
            import json

            print(json.dumps({"error": message, "exit_code": 130}, indent=2))
        raise SystemExit(130) from None
