"""Questions from a file: one JSON object a line.

    {"id": "towers", "question": "Which is taller?", "answers": ["Eiffel Tower", "Big Ben"], "label": "Eiffel Tower"}

`label` is an index or the text of an answer. `id` must be unique (default: the line number); `group` names tasks that
belong together in statistics. Every other field is kept for protocols to show. What must be there, a protocol says:
games and programming tasks have no `answers`, some have no `question`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from arena.protocols.errors import ConfigError, Fault, SourceError
from arena.protocols.records import Task
from arena.tasks.types import TaskSet

__all__ = ["jsonl", "read_tasks"]

MAX_BYTES = 200 * 1024 * 1024
MAX_LINE = 1024 * 1024
MAX_ANSWERS = 26
"""Answers are labelled A to Z."""
_HALF = re.compile("[\ud800-\udfff]")
MAX_FAULTS = 50
"""Faults that are told at once."""


def jsonl(*, path: str, held_out: float = 0.0, seed: int = 0) -> TaskSet:
    """The tasks of a file.

    Args:
        path: the file.
        held_out: share of the groups of tasks that are tested on and not trained on, drawn by ``seed``. With 0 all
            tasks are in both parts: right for running debates, refused for training.
        seed: of the split.

    Raises:
        SourceError: faults in the file, all together.
        ConfigError: a share that leaves one of the parts empty.
    """
    tasks = read_tasks(path)
    if not held_out:
        return TaskSet(f"jsonl:path={path}", tasks, tasks)
    groups = list(dict.fromkeys(task.cluster for task in tasks))
    count = round(held_out * len(groups)) if 0 < held_out < 1 else 0
    if not 0 < count < len(groups):
        raise ConfigError(f"held_out={held_out}: of {len(groups)} groups of tasks, at least one must be on each side")
    order = np.random.default_rng([seed % 2**64, 0x0D5]).permutation(len(groups))
    held = {groups[index] for index in order[:count]}
    return TaskSet(
        f"jsonl:path={path},held_out={held_out},seed={seed}",
        [task for task in tasks if task.cluster not in held],
        [task for task in tasks if task.cluster in held],
    )


def read_tasks(path: str | Path) -> list[Task]:
    """The tasks of a file.

    Raises:
        SourceError: it cannot be read, or lines of it are no tasks.
    """
    file = Path(path)
    faults: list[Fault] = []
    tasks: list[Task] = []
    first_line: dict[str, int] = {}
    for number, line in _lines(file):
        try:
            task = _task(line, number)
            if task.id in first_line:
                raise _LineError("id", f"'{task.id}' was used before, in line {first_line[task.id]}")
        except _LineError as error:
            faults.append(Fault(str(file), number, error.column, error.where, error.what))
            if len(faults) >= MAX_FAULTS:
                break
            continue
        first_line[task.id] = number
        tasks.append(task)
    if not tasks and not faults:
        faults.append(Fault(str(file), 1, 1, "", "there are no tasks: write one JSON object a line"))
    if faults:
        raise SourceError(faults)
    return tasks


class _LineError(Exception):
    def __init__(self, where: str, what: str, column: int = 1) -> None:
        super().__init__(what)
        self.where = where
        self.what = what
        self.column = column


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and lines that are not blank."""

    def fault(line: int, what: str) -> SourceError:
        return SourceError([Fault(str(file), line, 0 if line == 0 else 1, "", what)])

    try:
        with file.open("rb") as stream:  # a pipe or a device has no size to ask for
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise fault(0, f"cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise fault(0, f"the file is larger than {MAX_BYTES // 2**20} MiB: split it")
    # Only line feeds end a line: a JSON text may hold other separators, such as U+2028.
    for number, data in enumerate(raw.split(b"\n"), start=1):
        if len(data) > MAX_LINE:
            raise fault(number, f"the line is longer than {MAX_LINE // 2**10} KiB")
        try:
            line = data.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise fault(number, f"byte {error.start + 1} is not UTF-8") from None
        if line:
            yield number, line


def _task(line: str, number: int) -> Task:
    fields = _object(line)
    label = fields.pop("label", None)
    key, group = (_name(fields.pop(name, None), name) for name in ("id", "group"))
    if not fields:
        raise _LineError("", 'has no fields to show: write {"question": ..., "answers": [...]} or others')
    question = fields.get("question", "-")
    if not isinstance(question, str) or not question.strip():
        raise _LineError("question", f"must be a text that is not empty, not {_short(question)}")
    if "answers" not in fields and label is not None:
        raise _LineError("label", "needs 'answers' of which it is one")
    if "answers" in fields:
        fields["answers"] = _answers(fields["answers"])
        label = _label(label, fields["answers"])
    return Task(key or f"line-{number}", fields, label, group)


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _LineError("", f"is not JSON: {error.msg}", error.colno) from None
    except RecursionError:
        raise _LineError("", "is nested too deeply") from None
    except ValueError as error:  # such as an integer of more than 4300 digits
        raise _LineError("", f"is not JSON: {error}") from None
    if "\\u" in line and _HALF.search(json.dumps(value, ensure_ascii=False)):
        raise _LineError("", "holds half of a surrogate pair (such as \\ud83d alone), which is no character")
    if not isinstance(value, dict):
        raise _LineError("", f'must be a JSON object {{"question": ..., "answers": [...]}}, not {_short(value)}')
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _LineError(key, "is given twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise _LineError("", f"{name} is not a number that JSON knows")


def _answers(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_ANSWERS:
        raise _LineError("answers", f"must be a list of 2 to {MAX_ANSWERS} texts, not {_short(value)}")
    for answer in value:
        if not isinstance(answer, str) or not answer.strip():
            raise _LineError("answers", f"every answer must be a text that is not empty, not {_short(answer)}")
    answers = tuple(value)
    if len({" ".join(answer.split()).casefold() for answer in answers}) < len(answers):
        raise _LineError("answers", f"two answers read the same: {_short(list(answers))}")
    return answers


def _label(value: Any, answers: tuple[str, ...]) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < len(answers):
            return value
        raise _LineError("label", f"{value} is not an index from 0 to {len(answers) - 1}")
    if isinstance(value, str) and value in answers:
        return answers.index(value)
    raise _LineError("label", f"{_short(value)} is neither an index nor one of the answers {_short(list(answers))}")


def _name(value: Any, field: str) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise _LineError(field, f"must be a text of 1 to 200 characters, not {_short(value)}")
    return value


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
