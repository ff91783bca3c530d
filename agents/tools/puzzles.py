"""Tasks of reasoning-gym, checked by that library's own scorers: many have more right answers than one."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from arena.agents.tools.calls import not_checked
from arena.agents.tools.checks import FunctionCheck, finding, subject, unread
from arena.agents.tools.forkserver import ForkServer, installed
from arena.agents.tools.sandbox import Limits
from arena.protocols.errors import MissingExtraError, UnknownNameError, suggest
from arena.protocols.programs import Call, Outcome

__all__ = ["reasoning_gym"]

_LONGEST = 20_000


@functools.cache
def _server() -> ForkServer:
    """One for all checks of this kind: its start takes seconds."""
    return ForkServer("arena.agents.tools.puzzle_grading:score")


def reasoning_gym(
    *,
    field: str = "entry",
    dataset: str = "",
    partial: bool = False,
    seconds: Annotated[float, Field(gt=0, le=600)] = 5.0,
    memory: Annotated[int, Field(ge=64, le=8192)] = 512,
    of: str = "",
) -> FunctionCheck:
    """Passes what a scorer of reasoning-gym gives full marks.

    The answer is the text without blanks around it: where a turn holds more than that, have it write the answer in a
    tag. Some scorers let Python evaluate the answer: to these, nothing is given that calls more than a function of
    mathematics, and all work in a process of their own, within limits.

    Args:
        field: task field with the entry as the library makes it, a mapping with ``answer`` and ``metadata``.
        dataset: which dataset it is of; if empty, its ``metadata.source_dataset``.
        partial: give the scorer's number as the score, which some scorers give for the form alone; else full marks
            score 1 and everything else 0.
        seconds: CPU time of a scorer.
        memory: what it may use, in MiB.
        of: which value of the turn is checked; its text if empty.

    Raises:
        MissingExtraError: reasoning-gym is not installed.
        UnknownNameError: the library has no such dataset.
    """
    if importlib.util.find_spec("reasoning_gym") is None:
        raise MissingExtraError("check 'reasoning_gym' needs reasoning-gym: pip install 'debate-arena[verifiers]'")
    if dataset:
        _check_dataset(dataset)
    server, limits = _server(), Limits(seconds, memory)

    def check(call: Call) -> Outcome:
        entry = call.task.get(field)
        if not isinstance(entry, Mapping) or not {"answer", "metadata"} <= entry.keys():
            return not_checked(f"'{field}' of the task is no entry of reasoning-gym")
        metadata = entry["metadata"]
        name = dataset or (metadata.get("source_dataset") if isinstance(metadata, Mapping) else None)
        if not isinstance(name, str):
            return not_checked("the entry has no 'source_dataset': give dataset=NAME")
        said = subject(call, of)
        answer = "" if said is None else str(said).strip()
        if len(answer) > _LONGEST:
            return unread(f"it has {len(answer):,} characters, and at most {_LONGEST:,} are read")
        ran = server.call({"dataset": name, "entry": dict(entry), "answer": answer}, limits)
        if isinstance(ran.value, str):
            return unread(ran.value)
        if ran.error:
            known = server.call({"dataset": name, "entry": dict(entry), "answer": str(entry["answer"])}, limits)
            # Where the library's own answer can be scored, what was said is at fault.
            return not_checked(known.what) if known.error else unread(ran.what)
        marks = min(1.0, max(0.0, ran.value))
        return finding(marks >= 1.0, score=marks if partial else float(marks >= 1.0))

    version = installed("reasoning_gym")
    return FunctionCheck("reasoning_gym", check, (field,), slow=True, version=version)


def _check_dataset(name: str) -> None:
    from reasoning_gym.factory import DATASETS  # type: ignore[import-untyped]  # see arena.agents.tools.puzzle_grading

    if name not in DATASETS:
        raise UnknownNameError(f"'{name}' is no dataset of reasoning-gym.{suggest(name, DATASETS)}")
