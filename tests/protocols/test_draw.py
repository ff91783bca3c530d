import re
import xml.etree.ElementTree as ET

import pytest

from arena.protocols import library, load_protocol, parse_document
from arena.protocols.draw import to_mermaid, to_svg, to_text
from arena.protocols.loader import compile_document

HOSTILE = """\
name: odd
summary: <script>alert(1)</script> & "quotes"
params: {mode: a}
fields: [question]
roles: {r: {sees: [question]}, judge: {sees: [question]}}
nodes:
  one: {speak: r}
  two-three: {speak: r, to: []}
  v: {judge: judge}
edges:
  - start -> one & two-three -> v -> end
  - {from: v, to: two-three, times: "1 if mode == \\"a\\" else 2", when: round < 9}
  - {from: one & two-three, to: end, when: mode == 'b'}
  - two-three -> end
"""


@pytest.mark.parametrize("name", list(library()))
def test_pictures_show_every_node_and_bound(name: str) -> None:
    protocol = load_protocol(name)
    text, mermaid, svg = to_text(protocol), to_mermaid(protocol), to_svg(protocol)
    for node in protocol.nodes.values():
        for picture in (text, mermaid, svg):
            assert node.name in picture
            assert node.role.name in picture
    for edge in protocol.edges:
        if edge.guarded:
            for picture in (text, mermaid, svg):
                assert f"({edge.bound})" in picture


def test_text_picture_of_a_debate() -> None:
    assert to_text(load_protocol("debate", {"rounds": 3, "words": 5})) == (
        "debate: two debaters argue for opposite answers at the same time, then a judge decides\n"
        "\n"
        "                          start\n"
        "                            │\n"
        "┌──────────────────────────┐  ┌─────────────────────────┐\n"
        "│ pro                      │  │ con                     │\n"
        "│ proponent speaks, seat 0 │  │ opponent speaks, seat 1 │\n"
        "│ quotes passage           │  │ quotes passage          │  ↺ pro & con, up to 2 times (rounds - 1)\n"
        "│ at most 5 words          │  │ at most 5 words         │\n"
        "└──────────────────────────┘  └─────────────────────────┘\n"
        "                        (at once)\n"
        "                            │\n"
        "                ┌───────────────────────┐\n"
        "                │ verdict               │\n"
        "                │ judge reads all turns │\n"
        "                └───────────────────────┘\n"
        "                            │\n"
        "                           end\n"
    )


def test_hostile_names_and_conditions_stay_text() -> None:
    protocol = compile_document(parse_document(HOSTILE))
    svg = to_svg(protocol)
    tree = ET.fromstring(svg)
    assert not [element for element in tree.iter() if element.tag.endswith("script")]
    assert 'up to 1 time (1 if mode == "a" else 2) when round < 9' in "".join(tree.itertext())
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", svg)
    mermaid = to_mermaid(protocol)
    assert "script" not in mermaid
    for line in mermaid.splitlines():
        assert line.count('"') in (0, 2)
    assert "n_two__three" in mermaid
    assert "read by nobody" in to_text(protocol)
