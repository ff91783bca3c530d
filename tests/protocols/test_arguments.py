"""Arguments of specs against the annotations of what they are for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import Field

from arena.protocols.arguments import fit_arguments
from arena.protocols.errors import ConfigError, StoreError
from arena.protocols.files import writing
from arena.protocols.registry import Registry

if TYPE_CHECKING:
    from elsewhere import Unknown  # type: ignore[import-not-found]


def build(
    *,
    text: str = "",
    count: int = 1,
    rate: Annotated[float, Field(gt=0)] = 0.1,
    loud: bool = False,
    size: tuple[int, int] = (1, 2),
    texts: Sequence[str] | str = "",
    side: Literal["left", "right"] = "left",
    other: Unknown = None,
    **sizes: Any,
) -> dict[str, Any]:
    return locals()


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ({"text": 5}, "5"),
        ({"text": None}, ""),
        ({"rate": 1}, 1),
        ({"size": [1, 4]}, (1, 4)),
        ({"texts": ["a", "b"]}, ["a", "b"]),
        ({"texts": "a|b"}, "a|b"),
        ({"other": object}, object),
        ({"sizes": "anything"}, "anything"),
        ({"heads": "anything"}, "anything"),
    ],
)
def test_what_fits_is_passed_on(given: dict[str, Any], fitted: Any) -> None:
    assert list(fit_arguments(build, given, "thing 'x'").values()) == [fitted]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": True}, "'text' of thing 'x' must be a text, not True"),
        ({"text": {"a": 1}}, "'text' of thing 'x' must be a text, not {'a': 1}"),
        ({"count": "abc"}, "'count' of thing 'x' must be a whole number, not 'abc'"),
        ({"count": 1.5}, "must be a whole number, not 1.5"),
        ({"count": True}, "must be a whole number, not True"),
        ({"rate": "hot"}, "must be a number, not 'hot'"),
        ({"rate": 0}, "'rate' of thing 'x' must be greater than 0, not 0"),
        ({"loud": 1}, "must be true or false, not 1"),
        ({"size": "big"}, "must be a list, not 'big'"),
        ({"size": [1]}, "must be a longer list, not [1]"),
        ({"texts": 5}, "must be a list or a text, not 5"),
        ({"side": "up"}, "must be 'left' or 'right', not 'up'"),
    ],
)
def test_what_does_not_fit_is_told_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fit_arguments(build, given, "thing 'x'")
    assert message in str(caught.value)


def test_a_registry_checks_what_a_spec_says_but_not_its_own_context() -> None:
    things: Registry[dict[str, Any]] = Registry("thing")
    things.register("x", summary="")(build)
    assert things.build("x:text=5,count=2", rate="context is the programmer's")["text"] == "5"
    for way in (things.build, things.check):
        with pytest.raises(ConfigError, match="'count' of thing 'x' must be a whole number, not 'two'"):
            way("x:count=two")


class SafetensorError(Exception):
    """As the library of that name raises it."""


SafetensorError.__module__ = "safetensors._safetensors_rust"


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 143680 vs 143568"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_told_in_one_sentence(error: Exception) -> None:
    told = r"^runs/a/checkpoint.pt cannot be written \(.*--resume$"
    with pytest.raises(StoreError, match=told), writing(Path("runs/a/checkpoint.pt")):
        raise error


def test_a_bug_while_writing_stays_a_bug() -> None:
    with pytest.raises(ZeroDivisionError), writing("x"):
        raise ZeroDivisionError
