"""Pictures of a protocol: Mermaid for Markdown, boxes for the terminal, SVG for a page.

All three show the same `arena.protocols.draw.picture.Picture`: what acts in one superstep stands in one row, below
all that leads to it, the nodes of a counted role are one box, and a nested protocol is a frame around its own picture.
"""

from arena.protocols.draw.mermaid import to_mermaid
from arena.protocols.draw.svg import to_svg
from arena.protocols.draw.text import to_text

__all__ = ["to_mermaid", "to_svg", "to_text"]
