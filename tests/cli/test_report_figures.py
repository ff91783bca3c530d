"""``arena report --figures``: the pictures of a run as files."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena.cli.app import app

RATED = {"ratings.svg", "cross-play.svg"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = [{"id": f"t{n}", "question": "Yes?", "answers": ["yes", "no"], "label": n % 2} for n in range(8)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    cup = {
        "tournament": "cup of <b>agents</b>",
        "protocol": "debate",
        "params": {"rounds": 1},
        "tasks": "q.jsonl",
        "n": 8,
        "agents": {"ann": "fixed:text=yes", "<i>bob</i>": "fixed:text=a longer speech than that"},
        "judge": "biased:accuracy=.7,length=.4",
    }
    Path("cup.yaml").write_text(json.dumps(cup))


def arena(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_every_picture_of_a_tournament_becomes_a_file() -> None:
    arena("tournament", "cup.yaml", "--out", "cup", "--json")
    page, *pictures = arena("report", "cup", "--figures", "drawn").splitlines()
    assert page == str(Path("cup/report.html"))
    assert {Path(path).name for path in pictures} >= RATED
    assert sorted(pictures) == sorted(map(str, Path("drawn").iterdir()))
    for path in pictures:
        root = ET.fromstring(Path(path).read_bytes())
        assert root.tag.endswith("svg")
        assert not [node for node in root.iter() if node.tag.rpartition("}")[2] in ("i", "b", "script")]
    shown = [node.text for node in ET.fromstring(Path("drawn/ratings.svg").read_bytes()).iter() if node.text]
    assert {"ann", "<i>bob</i>"} <= set(shown)
    words = Path("cup/report.html").read_text(encoding="utf-8")
    assert "cup of &lt;b&gt;agents&lt;/b&gt;" in words
    assert "<i>bob" not in words


def test_pictures_as_png() -> None:
    pytest.importorskip("resvg_py", reason="pip install 'debate-arena[figures]'")
    arena("tournament", "cup.yaml", "--out", "cup", "--json")
    _, *pictures = arena("report", "cup", "--figures", "drawn", "--format", "png").splitlines()
    assert {Path(path).suffix for path in pictures} == {".png"}
    assert all(Path(path).read_bytes().startswith(b"\x89PNG\r\n") for path in pictures)


def test_without_the_renderer_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    arena("tournament", "cup.yaml", "--out", "cup", "--json")
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    told = arena("report", "cup", "--figures", "drawn", "--format", "png", code=2)
    assert "pip install 'debate-arena[figures]'" in told


def test_a_format_without_a_place_is_refused() -> None:
    assert "--figures DIR" in arena("report", "cup", "--format", "png", code=2)


def test_a_run_and_an_audit_have_pictures_too() -> None:
    arena(
        "run",
        "debate",
        "--tasks",
        "q.jsonl",
        "--agent",
        "*=fixed:text=yes",
        "--judge",
        "exact",
        "--out",
        "run",
        "--json",
    )
    assert arena("report", "run", "--figures", "a").splitlines()[1:] == [str(Path("a/accuracy.svg"))]
    arena("audit", "biased:accuracy=.75,position=.5", "--tasks", "q.jsonl", "--out", "audit", "--json")
    assert len(arena("report", "audit", "--figures", "b").splitlines()) > 2


def test_a_run_in_a_database_needs_a_place_for_its_page() -> None:
    url = "sqlite:///cup.sqlite"
    arena("tournament", "cup.yaml", "--out", url, "--json")
    assert "--out FILE" in arena("report", url, code=2)
    page, *pictures = arena("report", url, "--out", "page.html", "--figures", "drawn").splitlines()
    assert page == "page.html"
    assert {Path(path).name for path in pictures} >= RATED
