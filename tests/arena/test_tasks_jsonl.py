import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.protocols.errors import ConfigError, SourceError
from arena.tasks import open_tasks
from arena.tasks.jsonl import read_tasks

GOOD = '{"question": "q?", "answers": ["yes", "no"]}'


def write(folder: Path, *lines: str) -> Path:
    file = folder / "tasks.jsonl"
    file.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    return file


def faults(file: Path) -> list[str]:
    with pytest.raises(SourceError) as caught:
        read_tasks(file)
    return [str(fault).removeprefix(f"{file}:") for fault in caught.value.faults]


def test_a_file_becomes_tasks(tmp_path):
    file = write(
        tmp_path,
        "\ufeff" + GOOD,
        "",
        '{"id": 7, "question": "q\u2028?", "answers": ["a", "b", "c"], "label": "c", "passage": "p", "group": "g"}',
        '{"question": "q?", "answers": ["yes", "no"], "label": 0}\r',
    )
    first, second, third = open_tasks(str(file)).test
    assert (first.id, first.label, first.cluster, first.answers) == ("line-1", None, "line-1", ("yes", "no"))
    assert (second.id, second.label, second.cluster) == ("7", 2, "g")
    assert second.fields == {"question": "q\u2028?", "answers": ("a", "b", "c"), "passage": "p"}
    assert (third.id, third.label) == ("line-4", 0)
    assert [task.id for task in open_tasks(f"jsonl:path={file}").train] == ["line-1", "7", "line-4"]


def test_tasks_need_neither_question_nor_answers(tmp_path):
    game, open_question = read_tasks(write(tmp_path, '{"card_one": "J", "card_two": "K"}', '{"question": "why?"}'))
    assert (game.fields, game.label, game.answers) == ({"card_one": "J", "card_two": "K"}, None, ())
    assert open_question.fields == {"question": "why?"}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{'question': 1}", "2:2: is not JSON: Expecting property name"),
        ("[1]", "2:1: must be a JSON object"),
        ('{"question": null}', "2:1: question: must be a text that is not empty, not nothing"),
        ('{"id": "a", "group": "g"}', "2:1: has no fields to show"),
        ('{"question": "q", "label": 0}', "2:1: label: needs 'answers' of which it is one"),
        ('{"question": " ", "answers": ["a", "b"]}', "2:1: question: must be a text that is not empty, not ' '"),
        ('{"question": "q", "answers": "ab"}', "2:1: answers: must be a list of 2 to 26 texts, not 'ab'"),
        ('{"question": "q", "answers": ["a"]}', "2:1: answers: must be a list of 2 to 26 texts"),
        ('{"question": "q", "answers": ["a", 2]}', "2:1: answers: every answer must be a text"),
        ('{"question": "q", "answers": ["a", "A "]}', "2:1: answers: two answers read the same"),
        ('{"question": "q", "answers": ["a", "b"], "label": 2}', "2:1: label: 2 is not an index from 0 to 1"),
        ('{"question": "q", "answers": ["a", "b"], "label": true}', "2:1: label: True is neither an index nor one"),
        ('{"question": "q", "answers": ["a", "b"], "label": "c"}', "2:1: label: 'c' is neither an index nor one"),
        ('{"question": "q", "question": "r", "answers": ["a", "b"]}', "2:1: question: is given twice"),
        ('{"question": "q", "answers": ["a", "b"], "x": NaN}', "2:1: NaN is not a number that JSON knows"),
        ('{"question": "q", "answers": ["a", "b"], "id": ""}', "2:1: id: must be a text of 1 to 200 characters"),
        ('{"question": "q", "answers": ["a", "b"], "x": ' + "[" * 100_000, "2:"),
        ('{"question": "q", "answers": ["a", "b"], "x": 1' + "0" * 5000 + "}", "2:1: is not JSON: Exceeds the limit"),
        ('{"question": "\udc80"}', "2:1: byte 15 is not UTF-8"),
        ('{"question": "' + "q" * 2**20 + '"}', "2:1: the line is longer than 1024 KiB"),
    ],
)
def test_a_wrong_line_is_told_with_its_place(tmp_path, line, fault):
    (found,) = faults(write(tmp_path, GOOD, line))
    assert found.startswith(fault)


def test_all_faults_are_told_together(tmp_path):
    file = write(tmp_path, '{"id": "a", ' + GOOD[1:], "no", '{"id": "a", ' + GOOD[1:])
    assert faults(file) == ["2:1: is not JSON: Expecting value", "3:1: id: 'a' was used before, in line 1"]
    assert faults(write(tmp_path, "  ")) == ["1:1: there are no tasks: write one JSON object a line"]
    assert faults(tmp_path / "missing.jsonl") == ["0:0: cannot be read: No such file or directory"]


@given(
    st.lists(
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5),
        max_size=3,
    )
)
def test_strange_values_are_faults_and_never_crashes(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("fuzz")
    lines = [json.dumps({"question": value, "answers": values, "label": value, "id": value}) for value in values]
    with contextlib.suppress(SourceError):
        read_tasks(write(folder, *lines))


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the tests run without the source tree")
def test_the_shipped_questions_are_labelled_and_have_passages():
    tasks = open_tasks(str(EXAMPLES / "questions.jsonl")).test
    assert len(tasks) == 12
    assert {task.label for task in tasks} == {0, 1}
    assert all(task.fields["passage"] and len(task.answers) == 2 for task in tasks)


def test_held_out_groups_stay_together_and_out_of_training(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    lines = [
        {"id": f"t{n}", "question": "?", "answers": ["a", "b"], "label": 0, "group": f"g{n // 2}"} for n in range(20)
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    split = open_tasks(f"jsonl:path={file},held_out=.3", seed=5)
    train, test = ({task.cluster for task in part} for part in (split.train, split.test))
    assert len(test) == 3
    assert len(split.test) == 6
    assert not train & test
    assert [t.id for t in open_tasks(f"jsonl:path={file},held_out=.3", seed=5).test] == [t.id for t in split.test]
    with pytest.raises(ConfigError, match="at least one must be on each side"):
        open_tasks(f"jsonl:path={file},held_out=1")


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_a_character(tmp_path):
    file = write(
        tmp_path,
        r'{"question": "q \ud83d", "answers": ["yes", "no"]}',
        r'{"question": "q?", "answers": ["yes", "no"], "deep": [{"\udc00": 1}]}',
        r'{"question": "\ud83d\ude00", "answers": ["yes", "no"]}',
    )
    assert [fault.partition(" (")[0] for fault in faults(file)] == [
        "1:1: holds half of a surrogate pair",
        "2:1: holds half of a surrogate pair",
    ]


def test_a_device_without_end_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr("arena.tasks.jsonl.MAX_BYTES", 2**20)
    with pytest.raises(SourceError, match="larger than 1 MiB"):
        read_tasks("/dev/zero")
