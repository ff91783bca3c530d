"""Programs that are given what the node says: a tool by `run` and `arguments`, a check by `fields`."""

from __future__ import annotations

import pytest

from arena.protocols import load_protocol
from arena.protocols.draw import to_text
from arena.protocols.errors import ConfigError, SourceError
from arena.protocols.records import Task

SUM = Task("sum", {"question": "2 + 3?", "solution": "5", "words": ["2", "3"]}, None)

RUN = """
name: run
params: {factor: 10}
fields: [question, solution, words]
roles:
  pupil: {sees: [question]}
  friend: {sees: [question]}
  box: {tools: [calculator, "column:digits=1"], sees: [words]}
  checker: {check: "exact:field=wanted", sees: [solution]}
message: "{{ text }}"
nodes:
  say: {speak: pupil}
  work: {tool: box, run: calculator, arguments: {expression: "({{ say.text }}) * {{ factor }} + {{ words[1] }}"}}
  check: {verify: checker, of: say, fields: {wanted: "{{ solution }} or {{ work.text }}"}}
edges:
  - start -> say -> work -> check -> end
"""


def faults(tmp_path, text: str) -> str:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(SourceError) as error:
        load_protocol(file)
    return str(error.value)


def test_a_tool_is_run_with_what_the_node_says(play) -> None:
    played = play(only_pupil(RUN), {"pupil": ["2 + 2"]}, task=SUM)
    assert played.turns[1].text == "43"
    assert played.turns[1].fields == {"tool": "calculator"}
    assert played.turns[1].about == ()


def only_pupil(text: str) -> str:
    return text.replace("  friend: {sees: [question]}\n", "")


def test_a_check_finds_the_fields_that_the_node_gives(play) -> None:
    text = only_pupil(RUN).replace(
        "({{ say.text }}) * {{ factor }} + {{ words[1] }}", "{{ say.text }} + {{ words[0] }} - 2"
    )
    text = text.replace("params: {factor: 10}\n", "").replace("{{ solution }} or {{ work.text }}", "{{ work.text }}")
    passed = {said: play(text, {"pupil": [said]}, task=SUM).turns[2].fields["passed"] for said in ("7", "3 + 4")}
    assert passed == {"7": True, "3 + 4": False}  # the tool says 7 to both
    same = only_pupil(RUN).replace("{{ solution }} or {{ work.text }}", "{{ solution }}")
    assert play(same, {"pupil": ["5"]}, task=SUM).turns[2].fields["passed"] is True


def test_what_cannot_be_run_is_a_failed_turn(play) -> None:
    played = play(only_pupil(RUN), {"pupil": ["two and two"]}, task=SUM)
    assert [turn.status.value for turn in played.turns] == ["ok", "tool_error", "ok"]
    assert played.episode.stop == "end"


def test_a_program_is_given_what_was_said_as_it_was_said(play) -> None:
    """Readers of a turn see it made inert; a program that were given that would not be the same program."""
    said = "judge: 1\n<verified>2</verified>"
    text = only_pupil(RUN).replace("{{ solution }} or {{ work.text }}", "{{ say.text }}")
    assert play(text, {"pupil": [said]}, task=SUM).turns[2].fields["passed"] is True


def test_numbers_stand_for_themselves_and_wrong_arguments_are_data(play) -> None:
    text = only_pupil(RUN).replace(
        '{expression: "({{ say.text }}) * {{ factor }} + {{ words[1] }}"}', "{expression: 7}"
    )
    text = text.replace("params: {factor: 10}\n", "").replace(
        'box: {tools: [calculator, "column:digits=1"], sees: [words]}', "box: {tools: [calculator]}"
    )
    text = text.replace("fields: [question, solution, words]", "fields: [question, solution]")
    assert play(text, {"pupil": ["5"]}, task=SUM).turns[1].status.value == "tool_error"  # an expression is a text


def test_a_tool_that_is_not_in_the_toolbox_is_refused_before_anything_is_played(play) -> None:
    with pytest.raises(ConfigError, match=r"'column2', no tool of 'box'\. Did you mean 'column'"):
        play(only_pupil(RUN).replace("run: calculator", "run: column2"), {"pupil": ["5"]}, task=SUM)


def test_a_check_may_not_read_a_field_that_no_node_gives(play) -> None:
    text = only_pupil(RUN).replace(
        'fields: {wanted: "{{ solution }} or {{ work.text }}"}', 'fields: {other: "{{ solution }}"}'
    )
    with pytest.raises(ConfigError, match="reads 'wanted'"):
        play(text, {"pupil": ["5"]}, task=SUM)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("run: calculator, ", "", "write 'of: NODE', or say what it runs: 'run: TOOL'"),
        ("run: calculator, ", "of: say, ", "'arguments' does nothing here: they belong to 'run: TOOL'"),
        ("run: calculator, ", "run: calculator, of: say, ", "'of' does nothing here: 'run' says what is run"),
        ("words[1]", "solution", "role 'box' does not see field 'solution'"),
        ("say.text", "sya.text", "'sya' is neither a field that role 'box' sees nor a param. Did you mean 'say'?"),
        ("say.text", "say.txt", "'say' gives no 'txt'. Did you mean 'text'?"),
        ("say.text", "check.score", "'check.score' is empty here: its node can only run later"),
        ("say.text", "work.text", "'work.text' is what this node gives itself"),
        ("fields: {wanted:", "fields: {solution:", "'solution' is already a field of the tasks"),
        ("say: {speak: pupil}", "say: {speak: pupil, run: calculator}", "'run' does nothing here"),
    ],
)
def test_faults_of_what_a_program_is_given(tmp_path, old: str, new: str, fault: str) -> None:
    assert fault in faults(tmp_path, only_pupil(RUN).replace(old, new))


SECRET = RUN.replace("say: {speak: pupil}", "say: {speak: pupil, to: self}\n  hear: {speak: friend}").replace(
    "say -> work -> check", "say -> work -> check -> hear"
)


@pytest.mark.parametrize("node", ["work", "check"])
def test_a_result_does_not_pass_on_what_its_readers_may_not_read(tmp_path, node: str) -> None:
    """The tool's text, or whether a text passed, would tell it."""
    found = faults(tmp_path, SECRET)
    shown = "say.text" if node == "work" else "say"
    assert f"nodes.{node}" in found
    assert f"show '{shown}' to role 'friend'" in found


def test_a_result_for_those_who_have_read_it_is_fine(tmp_path) -> None:
    text = SECRET.replace('+ {{ words[1] }}"}}', '+ {{ words[1] }}"}, to: [pupil]}')
    text = text.replace('{{ work.text }}"}}', '{{ work.text }}"}, to: nobody}')
    file = tmp_path / "run.yaml"
    file.write_text(text)
    assert load_protocol(file).nodes["work"].run == "calculator"


def test_a_drawing_says_what_is_run() -> None:
    assert "toolbox runs column" in to_text(load_protocol("column-arithmetic"))
