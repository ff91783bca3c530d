"""``arena graph``: a protocol as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.output import SetParams, read_assignments

__all__ = ["command"]


class Format(StrEnum):
    """How it is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


def command(
    protocol: Annotated[
        str, typer.Argument(metavar="PROTOCOL", help="A name from `arena ls protocols`, or a YAML file.")
    ],
    picture: Annotated[
        Format, typer.Option("--format", "-f", help="text for the terminal, mermaid for Markdown, svg for a page.")
    ] = Format.TEXT,
    params: SetParams = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead of standard output.")
    ] = None,
) -> None:
    """Draw the graph of a protocol: who speaks when, what loops and how often."""
    from arena.protocols import load_protocol
    from arena.protocols.draw import to_mermaid, to_svg, to_text

    drawn = {Format.TEXT: to_text, Format.MERMAID: to_mermaid, Format.SVG: to_svg}[picture](
        load_protocol(protocol, read_assignments(params, "--set"))
    )
    if out is None:
        typer.echo(drawn.rstrip("\n"))
    else:
        out.write_text(drawn, encoding="utf-8")
