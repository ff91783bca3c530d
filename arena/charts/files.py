"""Pictures as files of their own: an SVG that any program reads, or a PNG of it."""

from __future__ import annotations

import re
from functools import cache
from types import ModuleType

from arena.charts.drawing import CHARACTER, WIDTH, across, svg, text
from arena.protocols.errors import ConfigError, MissingExtraError

__all__ = ["png", "standalone"]

_MARGIN = 16
_LINE = 18  # height of a line of the caption
_MOST_PIXELS = 64_000_000
_INSTALL = "pictures as PNG need a renderer: pip install 'debate-arena[figures]', or take --format svg"
_NO_FONT = (
    "no font is installed on this machine, so a PNG would have no words: install one "
    "(such as the package fonts-dejavu-core, or any .ttf in ~/.fonts), or take --format svg"
)

# Styles only: labels have their quotation marks escaped, so nothing that they say can look like one.
_STYLE = re.compile(r'style="[^"]*"')
_VARIABLE = re.compile(r"var\(--[\w-]+,([^()]*)\)")
_SIZE = re.compile(r' width="(\d+)" height="(\d+)"')
_OPENING = re.compile(r'viewBox="0 0 (\d+) (\d+)"')


def standalone(picture: str, caption: str = "") -> str:
    """An SVG document of a chart: plain colours on white, a size, a margin, and the caption above it.

    Pages give charts their colours, fonts and captions; a file has to bring its own, and most programs that read SVG
    know no CSS variables.

    Args:
        picture: what a function of `arena.charts` returned.
        caption: stands above the picture; empty for none.

    Raises:
        ConfigError: this is no such picture.
    """
    opening = _OPENING.search(picture)
    if opening is None:
        raise ConfigError("only pictures of arena.charts can be made into files")
    lines = _wrapped(caption)
    top = _MARGIN + _LINE * len(lines) + (6 if lines else 0)
    width, height = int(opening[1]) + 2 * _MARGIN, int(opening[2]) + top + _MARGIN
    box = f'viewBox="{-_MARGIN} {-top} {width} {height}" width="{width}" height="{height}"'
    paper = f'<rect x="{-_MARGIN}" y="{-top}" width="{width}" height="{height}" style="fill:#fff"/>'
    words = "".join(text(0, _MARGIN + 12 - top + _LINE * i, each) for i, each in enumerate(lines))
    body = picture.replace(opening[0], box, 1).replace("</desc>", f"</desc>{paper}{words}", 1)
    plainly = _STYLE.sub(lambda style: _VARIABLE.sub(r"\1", style[0]), body)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{plainly}\n'


def png(document: str, scale: float = 3.0) -> bytes:
    """A picture of what `standalone` made.

    Args:
        document: the SVG.
        scale: pixels a unit; 3 makes a picture about 1,500 pixels wide.

    Raises:
        MissingExtraError: the renderer is not installed.
        ConfigError: this machine has no font, or the picture is larger than 64 million pixels.
    """
    renderer = _renderer()
    size = _SIZE.search(document)
    # The renderer ends the whole process if it cannot have the memory.
    if size is None or int(size[1]) * int(size[2]) * scale * scale > _MOST_PIXELS:
        raise ConfigError("a picture is too large for a PNG: take --format svg")
    if not _has_font():
        raise ConfigError(_NO_FONT)
    return bytes(renderer.svg_to_bytes(svg_string=document, zoom=scale))


def _renderer() -> ModuleType:
    try:
        import resvg_py
    except ImportError as error:
        raise MissingExtraError(_INSTALL) from error
    return resvg_py


@cache
def _has_font() -> bool:
    """Whether words leave a trace: without fonts the renderer leaves them out and says nothing."""
    blank, written = (standalone(svg("", "", 20, [text(10, 15, words)])) for words in ("", "x"))
    renderer = _renderer()
    return bool(renderer.svg_to_bytes(svg_string=blank) != renderer.svg_to_bytes(svg_string=written))


def _wrapped(caption: str) -> list[str]:
    """Lines that fit; a word that fits in none is cut by the edge of the picture."""
    lines: list[str] = []
    for word in caption.replace(" %", "\N{NO-BREAK SPACE}%").split(" "):
        if lines and across(f"{lines[-1]} {word}") * CHARACTER <= WIDTH:
            lines[-1] += f" {word}"
        elif word:
            lines.append(word)
    return lines
