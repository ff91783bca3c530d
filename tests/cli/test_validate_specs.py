"""``arena validate`` looks into the specs that files hold, those inside of others included."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena.cli.app import app

RUN = """\
protocol: debate
tasks: claims
agents: {{proponent: {agent}, "*": silent}}
judge: {judge}
params: {{rounds: 1}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def faults(text: str) -> list[str]:
    Path("f.yaml").write_text(text)
    result = CliRunner().invoke(app, ["validate", "f.yaml"])
    assert result.exit_code == 2, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        ("exakt", "judge: 'exakt' is not a known judge. Did you mean 'exact'?"),
        ("\"panel:judges=[exact, 'llm:modl=x']\"", "'judges' of judge 'panel', number 2: 'modl' is not an argument"),
        ("\"panel:judge='rubric:model=x',n=3\"", "'judge' of judge 'panel': judge 'rubric' needs 'criteria'"),
        ("\"composite:parts={exact: 1, 'constitution:of=last': 2}\"", "part 2: judge 'constitution' needs 'model'"),
        ("{judge: 'llm:model=x,rationale=-1'}", "judge.judge: 'rationale' of judge 'llm' must be"),
        ("'llm:model=x,temperature=.inf'", "'temperature' of judge 'llm' must be a finite number, not inf"),
    ],
)
def test_a_judge_of_a_run_file_is_checked_at_its_place(judge: str, told: str) -> None:
    (line,) = faults(RUN.format(agent="silent", judge=judge))
    assert line.startswith("f.yaml:4:")
    assert told in line


def test_agents_tasks_and_protocol_of_a_run_file_are_checked() -> None:
    text = RUN.format(agent="'fixed:txt=a'", judge="exact")
    assert faults(text)[0].startswith("f.yaml:3:21: agents.proponent: 'txt' is not an argument of agent 'fixed'")
    assert "is not a known task set. Did you mean 'claims'?" in faults(text.replace("claims", "claim"))[0]
    assert "there is no protocol" in faults(text.replace(": debate", ": debat"))[0]
    (Path("ok.yaml")).write_text(RUN.format(agent="silent", judge="exact"))
    assert CliRunner().invoke(app, ["validate", "ok.yaml"]).exit_code == 0


def test_the_judge_of_a_tournament_is_checked_to_its_parts() -> None:
    text = (
        "tournament: cup\nprotocol: debate\nparams: {rounds: 1}\ntasks: claims\nn: 4\n"
        "agents: {ann: 'fixed:text=a', bob: 'fixed:text=b'}\n"
        "judge: {kind: panel, judges: [exact, {kind: composite, parts: [exact, {check: 'numeric:feld=x'}]}]}\n"
    )
    (line,) = faults(text)
    assert "number 2: 'parts' of judge 'composite' must be parts that can be built (part 2: " in line
    assert "'feld' is not an argument of check 'numeric'" in line
