"""Printing and reading of arguments."""

from __future__ import annotations

import json

import pytest

from arena.cli.output import print_json, print_table, read_assignments, visible
from arena.protocols.errors import ConfigError


def test_values_after_set_are_yaml_scalars_and_quotes_keep_text() -> None:
    given = ["rounds=5", "temperature=.8", "mode=no", "flag=true", "name='5'", "text=a=b: c", "lr=3e-3", "at=12:30"]
    expected = {"rounds": 5, "temperature": 0.8, "mode": "no", "flag": True, "name": "5", "text": "a=b: c"}
    expected |= {"lr": 0.003, "at": "12:30"}
    assert read_assignments(given, "--set") == expected


@pytest.mark.parametrize("given", [["rounds"], ["=5"], ["a=1", "a=2"]])
def test_what_is_no_assignment_is_refused(given: list[str]) -> None:
    with pytest.raises(ConfigError, match="--set"):
        read_assignments(given, "--set")


def test_text_of_models_cannot_steer_the_terminal() -> None:
    assert visible("a\x1b[2Jb\r\u202ec\td\n") == "a\\u001b[2Jb\\u000d\\u202ec\td\n"


def test_cells_are_text_not_markup_and_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    print_table(["name"], [["[bold]a[/bold]"], [long]])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["name", "[bold]a[/bold]", long]


def test_json_has_null_where_a_number_is_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), 0.0, float("inf")], "b": (1, "é")})
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": [None, 0.0, None], "b": [1, "é"]}
    assert "é" in out
