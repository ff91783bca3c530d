"""Mermaid, for Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from arena.protocols.draw.picture import Arrow, Box, Picture, picture_of
from arena.protocols.graph import END, START, Protocol

__all__ = ["to_mermaid"]

_SHAPES = {
    "start": ("((", "))"),
    "end": ("((", "))"),
    "speak": ("[", "]"),
    "critique": (">", "]"),
    "revise": ("([", "])"),
    "human": ("(", ")"),
    "judge": ("{{", "}}"),
    "tool": ("[[", "]]"),
    "verify": ("[\\", "\\]"),
    "vote": ("[\\", "/]"),
    "select": ("[/", "\\]"),
    "compute": ("[/", "/]"),
}


def to_mermaid(protocol: Protocol) -> str:
    """A Mermaid flowchart; guarded edges are dotted and carry their condition, nested protocols are subgraphs."""
    return "\n".join(["flowchart TD", *_picture(picture_of(protocol), "    ")]) + "\n"


def _picture(picture: Picture, indent: str) -> Iterator[str]:
    for box in picture.boxes.values():
        yield from _box(picture, box, indent)
    for arrow in picture.arrows:
        yield indent + _arrow(picture, arrow)


def _box(picture: Picture, box: Box, indent: str) -> Iterator[str]:
    name = _id(picture, box.key)
    if box.inner is not None:
        yield f'{indent}subgraph {name}["{_text([box.name])}"]'
        yield from _picture(box.inner, indent + "    ")
        yield f"{indent}end"
        return
    left, right = _SHAPES[box.kind]
    many = f" x{box.count}" if box.count > 1 else ""
    head = box.name if box.key in (START, END) else f"{box.name}{many} ({box.kind})"
    yield f'{indent}{name}{left}"{_text([head, *box.facts])}"{right}'


def _arrow(picture: Picture, arrow: Arrow) -> str:
    label = _text([*(["any"] if arrow.any else []), *arrow.label])
    line = "-.->" if arrow.guarded else "-->"
    if label:
        line = f'-. "{label}" .->' if arrow.guarded else f'-- "{label}" -->'
    sources, targets = (_ids(picture, keys) for keys in (arrow.sources, arrow.targets))
    return f"{sources} {line} {targets}"


def _ids(picture: Picture, keys: Iterable[str]) -> str:
    return " & ".join(_id(picture, key) for key in keys)


def _id(picture: Picture, key: str) -> str:
    # Mermaid has words of its own, `end` among them.
    scope = f"{picture.scope}." if picture.scope and key in (START, END) else ""
    return "n_" + f"{scope}{key}".replace("-", "__").replace(".", "___")


def _text(lines: Iterable[str]) -> str:
    text = re.sub(r"[^\w\s.,()+*/:&-]", lambda found: f"#{ord(found[0])};", "\n".join(lines))
    return text.replace("\n", "<br/>")
