"""Text search: what is found, in which order, and what a corpus may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena.agents.tools import run_call, tools_of
from arena.agents.tools.search import Index, Passage, load_corpus, open_index
from arena.protocols.errors import SourceError
from arena.protocols.programs import Call, Outcome


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "cities").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "tower.txt").write_text("The tower was built in 1889.\r\n\r\nIt is made of iron.")
    (folder / "cities" / "paris.md").write_text("Paris lies on the Seine.")
    (folder / "picture.png").write_bytes(b"tower\xff")
    (folder / ".hidden" / "secret.txt").write_text("tower of secrets")
    return folder


def search(spec: str, query: str) -> Outcome:
    tools = tools_of([spec])
    return run_call(tools, next(iter(tools)), Call("", {"query": query}))


def test_passages_of_a_folder_are_found_with_their_file(corpus: Path) -> None:
    spec = f"search:path={corpus}"
    assert search(spec, "when was the TOWER built?").text.splitlines() == [
        "[1] tower.txt: The tower was built in 1889. It is made of iron.",
        "[2] cities/paris.md: Paris lies on the Seine.",
    ]
    assert search(spec, "paris").text == "[1] cities/paris.md: Paris lies on the Seine."
    assert search(f"{spec},count=1", "the").text.count("[") == 1


@pytest.mark.parametrize("query", ["elephants", "", "?!", "secrets", "picture"])
def test_nothing_is_found_without_a_word_in_common(corpus: Path, query: str) -> None:
    assert search(f"search:path={corpus}", query) == Outcome("Nothing was found.")


def texts(*found: Passage) -> list[str]:
    return [passage.text for passage in found]


def test_rare_words_and_short_passages_count_more_and_equals_keep_their_order() -> None:
    index = Index(
        [Passage(text) for text in ("red apple", "red pear", "red plum", "red pear and a lot of other fruit")]
    )
    assert texts(*index.find("red pear", 4)) == [
        "red pear",
        "red pear and a lot of other fruit",
        "red apple",
        "red plum",
    ]
    assert texts(*index.find("red", 2)) == ["red apple", "red pear"]


def test_a_word_that_comes_more_often_counts_more_but_not_in_proportion() -> None:
    # Lucene's BM25, k1 = 1.5, b = 0.75, all passages of 4 words: f / (f + 1.5) is 0.4, 0.57 and 0.67 for f = 1, 2, 3.
    passages = [Passage(text) for text in ("a x y z", "a a x y", "a a a x", "b b b b")]
    index = Index(passages)
    ids = index._scorer.get_tokens_ids(["a"])
    idf = 0.35667494393873245  # ln(1 + (4 - 3 + 0.5) / (3 + 0.5))
    assert index._scorer.get_scores_from_ids(ids).tolist() == pytest.approx(
        [idf * 0.4, idf * 2 / 3.5, idf * 3 / 4.5, 0.0], rel=1e-6
    )
    assert texts(*index.find("a", 2)) == ["a a a x", "a a x y"]


def test_lines_of_a_file_are_passages(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    lines = [{"text": "The tower\nis tall.", "title": "Tower"}, {"text": "Red pears.", "id": 7}]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert load_corpus(file) == [Passage("The tower\nis tall.", "Tower"), Passage("Red pears.")]
    assert search(f"search:path={file},name=find", "tower").text == "[1] Tower: The tower is tall."


def test_all_lines_that_are_no_passages_are_told(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"text": "good"}\n{"texts": "bad"}\nnot json\n[1]\n')
    with pytest.raises(SourceError) as told:
        search(f"search:path={file}", "good")
    assert [fault.line for fault in told.value.faults] == [2, 3, 4]


@pytest.mark.parametrize("content", [{}, {"a.txt": " \n "}, {"a.png": "words"}])
def test_a_corpus_without_text_is_a_mistake(tmp_path: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=r"there is no text: a corpus is a folder of files \(\.md"):
        search(f"search:path={tmp_path}", "words")


def test_a_corpus_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read: there is no such file or folder"):
        search(f"search:path={tmp_path / 'none'}", "words")


def test_long_files_are_cut_at_blank_lines(tmp_path: Path) -> None:
    paragraphs = [letter * 300 for letter in "abcd"] + ["e" * 2000]
    (tmp_path / "long.txt").write_text("\n\n".join(paragraphs))
    assert texts(*load_corpus(tmp_path)) == [
        f"{'a' * 300}\n\n{'b' * 300}",
        f"{'c' * 300}\n\n{'d' * 300}",
        "e" * 2000,
    ]


def test_passages_share_what_is_told(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("tower " * 200)
    lines = search(f"search:path={tmp_path},most=100", "tower").text.splitlines()
    assert [len(line) for line in lines] == [49, 49]
    assert all(line.endswith(" ...") for line in lines)


def test_an_index_is_made_once_until_its_files_change(corpus: Path) -> None:
    index = open_index(corpus)
    assert open_index(corpus) is index
    (corpus / "new.txt").write_text("elephants")
    assert texts(*open_index(corpus).find("elephants", 3)) == ["elephants"]


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"tower \xff\xfe tall")
    assert search(f"search:path={tmp_path}", "tower").text == "[1] a.txt: tower \ufffd\ufffd tall"
