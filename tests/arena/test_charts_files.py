"""Pictures as files: nothing around them is needed, and words cannot become anything else."""

from __future__ import annotations

import struct
import sys
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator

import pytest

from arena.charts import Bar, files, interval_plot, png, standalone
from arena.protocols.errors import ConfigError, MissingExtraError

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert(1)</script>" style="fill:var(--x,url(//evil))" var(--ink,#222) & \u202e \x00'
PICTURE = interval_plot([Bar("ann", 1.0, 0.5, 1.5), Bar("bob", 2.0)], title="Points", reference=(1.0, "mean"))


def test_a_file_needs_no_page_around_it() -> None:
    document = standalone(PICTURE, "Points of all")
    root = ET.fromstring(document.encode())
    assert "var(" not in document
    assert float(root.get("width") or 0) > 460
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    assert (width, height) == (float(root.get("width") or 0), float(root.get("height") or 0))
    paper = next(root.iter(f"{SVG}rect"))
    assert [float(paper.get(name) or 0) for name in ("x", "y", "width", "height")] == [left, top, width, height]
    words = [node.text for node in root.iter(f"{SVG}text")]
    assert words[0] == "Points of all"
    assert {"ann", "bob", "mean"} <= set(words)


def test_a_long_caption_has_several_lines_and_pushes_the_picture_down() -> None:
    one, many = (ET.fromstring(standalone(PICTURE, "word " * count).encode()) for count in (2, 60))
    assert float(many.get("height") or 0) > float(one.get("height") or 0) + 60
    assert max(len(node.text or "") for node in many.iter(f"{SVG}text")) < 65


def test_per_cent_signs_stay_beside_their_number() -> None:
    root = ET.fromstring(standalone(PICTURE, f"{'x' * 45} 95 % intervals").encode())
    lines = [node.text or "" for node in root.iter(f"{SVG}text")]
    assert not any(line.startswith("%") for line in lines)


def test_hostile_words_stay_words() -> None:
    picture = interval_plot([Bar(HOSTILE[:20], 1.0, shown="var(--ink,#222)")], title=HOSTILE)
    document = standalone(picture, HOSTILE)
    root = ET.fromstring(document.encode())
    assert "var(--ink,#222)" in [node.text for node in root.iter(f"{SVG}text")]  # a label is not taken for a style
    assert all("url(" not in (node.get("style") or "") for node in root.iter())
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        "svg", "title", "desc", "rect", "text", "line", "circle", "g",
    }  # fmt: skip


def test_only_charts_become_files() -> None:
    with pytest.raises(ConfigError, match="only pictures"):
        standalone("<svg/>")


def pixels(data: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and the distinct filtered rows of a PNG."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (depth, kind) == (8, 6)
    place, body = 8, b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            body += data[place + 8 : place + 8 + length]
        place += 12 + length
    raw, step = zlib.decompress(body), 1 + 4 * width
    return width, height, {raw[i : i + step] for i in range(0, len(raw), step)}


def test_a_png_has_the_size_of_its_drawing_and_something_on_it() -> None:
    pytest.importorskip("resvg_py", reason="pip install 'debate-arena[figures]'")
    document = standalone(PICTURE)
    root = ET.fromstring(document.encode())
    width, height, rows = pixels(png(document, scale=2.0))
    assert (width, height) == (2 * float(root.get("width") or 0), 2 * float(root.get("height") or 0))
    assert len(rows) > height / 10


def test_words_leave_a_trace_on_a_png() -> None:
    pytest.importorskip("resvg_py", reason="pip install 'debate-arena[figures]'")
    assert png(standalone(PICTURE, "one")) != png(standalone(PICTURE, "two"))


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What was found out about fonts is found out again."""
    files._has_font.cache_clear()
    yield
    files._has_font.cache_clear()


def test_without_fonts_no_picture_without_words(monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    resvg_py = pytest.importorskip("resvg_py", reason="pip install 'debate-arena[figures]'")
    draw = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: draw(**options, skip_system_fonts=True))
    with pytest.raises(ConfigError, match=r"no font is installed.*fonts-dejavu-core"):
        png(standalone(PICTURE))


def test_a_missing_renderer_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'debate-arena\[figures\]'.*--format svg"):
        png(standalone(PICTURE))


def test_a_picture_too_large_to_draw_is_told_before_the_renderer_ends_the_process() -> None:
    pytest.importorskip("resvg_py", reason="pip install 'debate-arena[figures]'")
    with pytest.raises(ConfigError, match="too large for a PNG: take --format svg"):
        png(standalone(PICTURE), scale=1e6)
