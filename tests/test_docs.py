"""The documents tell the truth: blocks are run, links lead somewhere.

A block is run when an HTML comment stands right above it: ``test`` runs it (Python, or console lines after ``$``, whose
printed lines must come in that order), ``test: exit=2`` runs lines that must fail so, ``test: file=NAME`` writes it to
a file for the blocks below. ``fragment`` marks YAML that is only part of a file; it is parsed. All blocks of a document
share one folder; a picture that they draw must be the one that the document shows.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from arena.protocols.documents import parse_document

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS += sorted((ROOT / "examples").glob("*.md"))

pytestmark = pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="the tests run without the source tree")

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>test|fragment)(?:: (?:file=(?P<file>\S+)|exit=(?P<exit>\d)))? -->\n)?"
    r"```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_PICTURE = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    mark: str | None
    file: str | None
    exit: int
    line: int


def blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [
        Block(
            found["kind"],
            found["text"],
            found["mark"],
            found["file"],
            int(found["exit"] or 0),
            text[: found.start()].count("\n") + 1,
        )
        for found in _BLOCK.finditer(text)
    ]


def commands(console: str) -> list[tuple[list[str], list[str]]]:
    """(arguments, lines that are printed) of each ``$`` line of a console block."""
    found: list[tuple[list[str], list[str]]] = []
    for line in console.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((shlex.split(line[2:], comments=True), []))
        elif line.strip():
            found[-1][1].append(line.strip())
    return found


def run(arguments: list[str], folder: Path, code: int = 0) -> str:
    program = {"arena": [sys.executable, "-m", "arena"], "python": [sys.executable]}[arguments[0]]
    done = subprocess.run([*program, *arguments[1:]], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{shlex.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_of_a_document_do_what_it_says(document: Path, tmp_path: Path) -> None:
    for block in blocks(document):
        if block.mark == "fragment":
            parse_document(block.text, f"{document.name}:{block.line}")
        elif block.mark is None:
            continue
        elif block.file is not None:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            run(["python", "-W", "error", "-c", block.text], tmp_path)
        else:
            assert block.kind == "console", f"{document.name}:{block.line}: {block.kind} cannot be run"
            for arguments, expected in commands(block.text):
                printed = iter(line.strip() for line in run(arguments, tmp_path, block.exit).splitlines())
                for line in expected:
                    assert any(line in out for out in printed), f"{document.name}:{block.line}: not printed: {line}"
    for picture in _PICTURE.findall(document.read_text(encoding="utf-8")):
        if (drawn := tmp_path / picture).exists():
            assert drawn.read_bytes() == (document.parent / picture).read_bytes(), f"{picture} is drawn otherwise now"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_yaml_and_python_block_is_checked(document: Path) -> None:
    unmarked = [block.line for block in blocks(document) if block.mark is None and block.kind in ("yaml", "python")]
    assert not unmarked


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    targets = _LINK.findall(document.read_text(encoding="utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_every_example_file_is_sound() -> None:
    examples = [str(path) for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".yaml", ".jsonl")]
    run(["arena", "validate", *examples], ROOT)
    run(["arena", "tournament", "examples/tournament.yaml", "--dry-run"], ROOT)
