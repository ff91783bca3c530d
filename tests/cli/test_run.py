"""``arena run``: judges by role, budgets, stop reasons, transcripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena.cli.app import app

PROTOCOL = """\
name: talk
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  one: {speak: pro}
  two: {speak: pro, output: {choice: answers}, retries: 1}
  first: {judge: judge}
edges:
  - start -> one -> two -> first
  - {from: first, to: end, when: first.index == 0, stop: convinced}
  - first -> end
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PROTOCOL)
    tasks = [{"id": f"t{i}", "question": f"Q{i}?", "answers": ["yes", "no"], "label": i % 2} for i in range(4)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


PLAY = ("run", "p.yaml", "--tasks", "q.jsonl", "--agent", "pro=fixed:text=yes")


def arena(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def mistake(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output + repr(result.exception)
    return result.stderr


def test_stop_reasons_are_counted_where_not_all_are_the_end() -> None:
    text = arena(*PLAY, "--judge", "exact", "--out", "first")
    assert "stopped by  convinced: 2, end: 2" in text


def test_attempts_that_could_not_be_read_are_counted() -> None:
    arguments = [*PLAY[:-1], "pro=fixed:text=perhaps", "--judge", "exact", "--out", "first"]
    assert "4 ok, 8 parse_error" in arena(*arguments)


def test_judges_are_given_by_role() -> None:
    summary = json.loads(arena(*PLAY, "--judge", "judge=exact", "--out", "first", "--json"))
    assert summary["stops"] == {"convinced": 2, "end": 2}
    assert "'jugde' is not a judging role" in mistake(*PLAY, "--judge", "jugde=exact", "--out", "second")
    assert "--judge is given twice" in mistake(*PLAY, "--judge", "exact", "--judge", "match", "--out", "second")
    assert "--judge fills the role 'judge' twice" in mistake(
        *PLAY, "--judge", "judge=exact", "--judge", "judge=match", "--out", "second"
    )


def test_a_run_that_its_budget_stopped_goes_on_with_a_larger_one_and_is_the_same_in_the_end() -> None:
    whole = json.loads(arena(*PLAY, "--judge", "exact", "--out", "whole", "--json"))
    options = (*PLAY, "--judge", "exact", "--out", "part", "--concurrency", "1")
    text = arena(*options, "--max-turns", "5")
    assert "The run was stopped (turns budget) with 2 of its episodes unplayed." in text
    assert "--resume --out part" in text
    again = arena(*options, "--resume", "--max-turns", "6")
    assert "with 1 of its episodes unplayed" in again
    done = json.loads(arena(*options, "--resume", "--max-turns", "100", "--json"))
    assert {**done, "out": "whole"} == whole
    assert done["missing"] == 0


def test_options_may_come_from_a_file() -> None:
    Path("run.yaml").write_text(
        "protocol: p.yaml\ntasks: q.jsonl\nagents: {pro: 'fixed:text=no'}\njudge: {judge: exact}\nmax_turns: 4\n"
    )
    summary = json.loads(arena("run", "--config", "run.yaml", "--out", "first", "--concurrency", "1", "--json"))
    assert (summary["episodes"], summary["missing"], summary["stopped"]) == (2, 2, "turns budget")


def test_show_prints_whole_transcripts() -> None:
    text = arena(*PLAY, "--judge", "exact", "--out", "first", "--show", "2")
    assert text.count("two") >= 2
    assert "t0" in text
    assert "t1" in text
    assert "t2" not in text


def test_prompts_shows_what_everybody_was_told_and_does_not_change_what_is_said() -> None:
    plain = arena(*PLAY, "--judge", "exact", "--out", "a", "--show", "1")
    text = arena(*PLAY, "--judge", "exact", "--out", "b", "--prompts")
    assert "judge reads" not in plain
    assert "judge reads, time 0\n    pro, argues [0]:\n    > yes\n" in text
    assert text.count("task: ") == 1
    assert arena("export", "a") == arena("export", "b")


def test_prompts_are_those_of_the_shown_episodes() -> None:
    Path("told.yaml").write_text(
        PROTOCOL.replace("one: {speak: pro}", "one: {speak: pro, prompt: 'On {{ question }}'}")
    )
    text = arena("run", "told.yaml", *PLAY[2:], "--judge", "exact", "--out", "a", "--prompts", "--show", "2")
    assert [line for line in text.splitlines() if "> On" in line] == ["    > On Q0?", "    > On Q1?"]
    again = arena("run", "told.yaml", *PLAY[2:], "--judge", "exact", "--out", "a", "--prompts", "--resume")
    assert "What the roles were told is not shown, since this episode was played before." in again


ASYNC = """
from arena.agents import AGENTS
from arena.agents.types import Act

class Far:
    name = "far"
    async def answer(self, ask):
        return Act("yes")

AGENTS.register("far", summary="answers from afar")(lambda: Far())
"""


def test_prompts_of_agents_from_afar_are_shown_too() -> None:
    Path("far.py").write_text(ASYNC)
    Path("told.yaml").write_text(PROTOCOL.replace("one: {speak: pro}", "one: {speak: pro, prompt: Go.}"))
    options = ("--tasks", "q.jsonl", "--agent", "*=far", "--judge", "exact", "--prompts")
    assert "    prompt:\n    > Go.\n    said:\n    | yes\n" in arena("--plugin", "far.py", "run", "told.yaml", *options)


FAILING = """
from arena.agents import AGENTS, ScriptedAgent
from arena.protocols.records import TurnStatus
from arena.agents.types import Act

def speak(ask):
    bad = ask.task.id in {bad!r}
    return Act("", TurnStatus.TRANSPORT, error="no line") if bad else "yes"

AGENTS.register("shaky", summary="fails in some episodes")(lambda: ScriptedAgent("shaky", speak))
"""


@pytest.mark.parametrize(("bad", "code"), [(["t0", "t1", "t2", "t3"], 1), (["t0", "t1", "t2"], 0)])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_of_which_nothing_could_be_played_has_failed(bad: list[str], code: int, form: list[str]) -> None:
    Path("shaky.py").write_text(FAILING.replace("{bad!r}", repr(bad)))
    options = [
        "--plugin",
        "shaky.py",
        "run",
        "p.yaml",
        "--tasks",
        "q.jsonl",
        "--agent",
        "pro=shaky",
        "--judge",
        "exact",
    ]
    result = CliRunner().invoke(app, [*options, "--out", "first", *form])
    assert result.exit_code == code
    if form:
        summary = json.loads(result.stdout)
        assert summary["failed"] == len(bad)
        assert "no line" in summary["first_error"]
    else:
        assert f"{len(bad)} of them failed" in result.stdout
        assert "first error" in result.stdout


CHECKED = """\
name: sums
fields: [question, solution]
roles:
  solver: {sees: [question]}
  marker: {sees: [solution], check: "exact:field=solution"}
nodes:
  solve: {speak: solver}
  mark: {verify: marker, of: solve}
edges: [start -> solve -> mark -> end]
"""


def test_checks_are_counted_where_nothing_is_judged() -> None:
    Path("sums.yaml").write_text(CHECKED)
    tasks = [{"question": "?", "solution": "yes" if number else "no"} for number in range(4)]
    Path("s.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    play = ("run", "sums.yaml", "--tasks", "s.jsonl", "--agent", "*=fixed:text=yes")
    text = arena(*play, "--out", "first")
    assert "passed mark  0.750 [0.301, 0.954] of 4" in text
    assert "verdicts" not in text
    summary = json.loads(arena(*play, "--out", "second", "--json"))
    assert summary["accuracy"] is None
    assert summary["passes"]["mark"]["interval"]["value"] == 0.75
    assert (summary["passes"]["mark"]["checked"], summary["passes"]["mark"]["unchecked"]) == (4, {})
    arena("report", "first")
    page = Path("first/report.html").read_text()
    assert "<h3>Checks</h3>" in page
    assert "0.750 [0.301, 0.954]" in page
    assert "Accuracy of" not in page


def test_ties_are_told_apart() -> None:
    tie = (
        "import math\nfrom arena.judges import JUDGES\nfrom arena.protocols.records import Verdict, VerdictStatus\n"
        "class Even:\n    name, sees_label = 'even', False\n"
        "    def judge(self, views):\n"
        "        return [Verdict(VerdictStatus.TIE, 'even', (math.log(0.5),) * 2) for _ in views]\n"
        "JUDGES.register('even', summary='ties')(lambda seed=0: Even())\n"
    )
    Path("even.py").write_text(tie)
    text = arena("--plugin", "even.py", *PLAY, "--judge", "even", "--out", "first", "--n", "1")
    assert "1 decidable, 1 of them ties" in text
    assert "of 1, a tie counts half" in text


def test_a_report_draws_what_was_played_wherever_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("base.yaml").write_text(PROTOCOL)
    Path("child.yaml").write_text("extends: base.yaml\nname: child\n")
    arena("run", "child.yaml", *PLAY[2:], "--judge", "exact", "--out", "first")
    Path("base.yaml").write_text("name: something else\n")
    Path("child.yaml").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    arena("report", "../first")
    page = (tmp_path / "first" / "report.html").read_text()
    assert '<figure class="graph">' in page
    assert "cannot be drawn" not in page


def test_a_judge_that_nobody_asks_is_noted() -> None:
    Path("sums.yaml").write_text(CHECKED)
    Path("s.jsonl").write_text('{"question": "?", "solution": "yes"}\n')
    play = ("run", "sums.yaml", "--tasks", "s.jsonl", "--agent", "*=fixed:text=yes")
    note = "nobody judges in protocol 'sums', so --judge is not used"
    assert f"note: {note}" in arena(*play, "--judge", "exact", "--out", "first")
    assert json.loads(arena(*play, "--judge", "exact", "--out", "second", "--json"))["notes"] == [note]
    assert "note:" not in arena(*play, "--out", "third")
