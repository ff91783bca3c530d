"""Moves without a speaker: tools, checks, votes, selections, computations; and what conditions make of them."""

from __future__ import annotations

import pytest

from arena.protocols.records import Task

QUESTION = Task("sum", {"question": "2 + 3?", "answers": ("5", "6"), "solution": "5", "cards": 7}, 0)

REACT = """
name: react
params: {steps: 3}
roles:
  agent: {sees: [question]}
  tools: {tools: [calculator]}
nodes:
  step: {speak: agent, prompt: "Tools: {{ tools }}", output: {call: [calculator], optional: true}}
  observation: {tool: tools, of: step}
edges:
  - start -> step
  - {from: step, to: observation, when: step.tool != none, times: steps}
  - observation -> step
  - step -> end
"""

CALL = '<call>{"tool": "calculator", "arguments": {"expression": "2 + 3"}}</call>'


def test_a_tool_runs_the_call_and_its_caller_reads_the_result(play) -> None:
    played = play(REACT, {"agent": [CALL, "It is 5."]}, task=QUESTION)
    observed = played.turns[1]
    assert (observed.role, observed.agent, observed.about, observed.status.value) == ("tools", "tools", (0,), "ok")
    assert observed.fields["tool"] == "calculator"
    assert "5" in observed.text
    assert played.told("agent")[0] == f"tools: {observed.text}"
    assert [turn.node for turn in played.turns] == ["step", "observation", "step"]


def test_the_prompt_lists_the_tools_that_may_be_called(play) -> None:
    played = play(REACT, {"agent": ["5"]}, task=QUESTION)
    assert played.told("agent")[-1].startswith("Tools: calculator(expression: string): ")


def test_a_bad_call_is_a_tool_error_and_the_episode_goes_on(play) -> None:
    bad = '<call>{"tool": "calculator", "arguments": {"expression": "2 +"}}</call>'
    played = play(REACT, {"agent": [bad, "5"]}, task=QUESTION)
    assert [turn.status.value for turn in played.turns] == ["ok", "tool_error", "ok"]
    assert played.episode.stop == "end"


def test_a_toolbox_without_a_call_says_so(play) -> None:
    text = REACT.replace("{from: step, to: observation, when: step.tool != none, times: steps}", "step -> observation")
    text = text.replace("  - observation -> step\n  - step -> end", "  - observation -> end")
    text = text.replace("params: {steps: 3}\n", "")
    played = play(text, {"agent": ["no call"]}, task=QUESTION)
    assert played.turns[1].status.value == "tool_error"
    assert played.turns[1].text


CHECKED = """
name: checked
roles:
  solver: {sees: [question, answers]}
  checker: {sees: [solution], check: "exact:field=solution,of=choice"}
nodes:
  answer: {speak: solver, output: {choice: answers}}
  check: {verify: checker, of: answer, say: "{{ 'right' if passed else 'wrong' }}"}
edges:
  - start -> answer -> check
  - {from: check, to: answer, when: not check.passed, times: 2}
  - check -> end
"""


def test_a_check_examines_the_turn_and_steers_a_repair_loop(play) -> None:
    played = play(CHECKED, {"solver": ["6", "5"]}, task=QUESTION)
    assert played.texts() == ["6", "wrong", "5", "right"]
    assert [turn.fields["passed"] for turn in played.turns if turn.node == "check"] == [False, True]
    assert played.turns[3].about == (2,)
    assert played.told("solver") == ["checker: wrong"]


def test_nobody_is_shown_what_only_the_checker_sees(play) -> None:
    played = play(CHECKED, {"solver": ["6", "5"]}, task=QUESTION)
    assert all("solution" not in ask.task.fields for ask in played.asks)
    assert all(turn.fields == {} for turn in played.asks[1].heard if turn.node == "check")


VOTE = """
name: consistency
roles:
  solver: {count: 3, sees: [question, answers]}
nodes:
  answer: {speak: solver, output: {choice: answers}, to: self}
  vote: {vote: answer, rule: RULE}
edges: [start -> answer -> vote -> end]
"""


@pytest.mark.parametrize(
    ("says", "rule", "choice", "status", "text"),
    [
        (["5", "6", "5"], "majority", 0, "scored", "The vote is for 5 (2 of 3 cast)."),
        (["5", "6", "?"], "plurality", None, "tie", "No choice has the vote (2 cast)."),
        (["?", "?", "?"], "plurality", None, "abstain", "No choice has the vote (0 cast)."),
        (["6", "6", "6"], "unanimous", 1, "scored", "The vote is for 6 (3 of 3 cast)."),
    ],
)
def test_a_vote_on_the_answers_is_a_verdict(play, says, rule, choice, status, text) -> None:
    numbered = {f"solver-{number}": [said] for number, said in enumerate(says, start=1)}
    played = play(VOTE.replace("RULE", rule), numbered, task=QUESTION)
    verdict = played.episode.verdicts["vote"]
    assert (verdict.choice, verdict.status.value) == (choice, status)
    turn = played.turns[3]
    assert (turn.role, turn.text, turn.about) == ("vote", text, (0, 1, 2))
    assert turn.fields["index"] == choice
    assert turn.fields["cast"] == sum(said != "?" for said in says)


PANEL = """
name: panel
roles:
  pro: {argues: 0, sees: [question, answers]}
  judge: {count: 3, sees: [question, answers]}
nodes:
  argue: {speak: pro}
  verdict: {judge: judge}
  panel: {vote: verdict, rule: mean}
  last:
    speak: pro
    prompt: "Panel: {{ panel.choice }} {{ panel.p | round(2) }}; {% for v in verdict %}{{ v.choice }} {% endfor %}"
edges: [start -> argue -> verdict -> panel -> last -> end]
"""


def test_judges_are_combined_and_may_be_named_in_prompts(play) -> None:
    shares = iter([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]])
    played = play(PANEL, {"pro": ["a", "b"]}, judge=lambda view: next(shares))
    verdict = played.episode.verdicts["panel"]
    assert [round(2.718281828459045**logp, 6) for logp in verdict.logps] == [0.7, 0.3]
    assert list(played.episode.verdicts) == ["verdict-1", "verdict-2", "verdict-3", "panel"]
    assert played.told("pro")[-1] == "Panel: Canberra 0.7; Canberra Canberra Sydney "
    assert played.episode.judged == {"verdict-1": (1,), "verdict-2": (1,), "verdict-3": (1,)}


SELECT = """
name: pick
roles:
  writer: {argues: 0, count: 3, sees: [question]}
  judge: {sees: [question, answers]}
  reader: {sees: [question]}
nodes:
  draft: {speak: writer, to: [reader], quote: question}
  best: {select: draft, by: judge, value: p, to: [reader]}
  read: {speak: reader}
edges: [start -> draft -> best -> read -> end]
"""


def test_a_selection_says_the_best_turn_again(play) -> None:
    task = Task("sum", {"question": "2 + 3?", "answers": ("5", "6", "7")}, 0)
    says = {"writer": lambda ask: f"<quote>2 + 3</quote> by {ask.role}", "reader": ["ok"]}

    def judge(view):
        # Each writer argues an answer of its own; the judge believes the second most.
        return [0.2, 0.6, 0.2]

    played = play(SELECT, says, task=task, judge=judge)
    best, chosen = played.turns[3], played.turns[1]
    assert (best.role, best.fields) == ("best", {"picked": 1, "value": pytest.approx(0.6)})
    assert (best.text, best.answer, best.quotes) == (chosen.text, 1, chosen.quotes)
    assert best.about == (0, 1, 2)
    assert played.told("reader")[-1] == "best: <verified>2 + 3</verified> by writer-2"
    assert [[said.role for said in view.statements] for view in played.views] == [
        ["writer-1"],
        ["writer-2"],
        ["writer-3"],
    ]


COMPUTE = """
name: game
params: {stake: 2}
roles:
  one: {sees: [question]}
  two: {sees: [question]}
nodes:
  a: {speak: one, output: {choice: [bet, fold]}}
  b: {speak: two, output: {choice: [bet, fold]}}
  payoff:
    compute:
      one: "stake if a.choice == 'bet' and b.choice == 'fold' else 0"
      who: "'one' if a.choice == 'bet' else 'none'"
    SAY
  after: {speak: two}
edges:
  - start -> a & b -> payoff
  - {from: payoff, to: end, when: payoff.one > 0, stop: won}
  - payoff -> after -> end
"""


def test_a_computation_is_recorded_and_steers_and_nobody_reads_it(play) -> None:
    played = play(COMPUTE.replace("SAY", ""), {"one": ["bet"], "two": ["fold"]})
    assert played.turns[2].fields == {"one": 2, "who": "one"}
    assert played.turns[2].audience == ()
    assert played.episode.stop == "won"
    played = play(COMPUTE.replace("SAY", ""), {"one": ["bet"], "two": ["bet", "x"]})
    assert played.told("two") == ["one: bet"]
    assert played.episode.stop == "end"


def test_what_a_computation_says_is_read(play) -> None:
    played = play(COMPUTE.replace("SAY", 'say: "{{ who }} gets {{ one }}"'), {"one": ["fold"], "two": ["bet", "x"]})
    assert played.told("two") == ["one: fold", "payoff: none gets 0"]


def test_arithmetic_with_nothing_gives_nothing(play) -> None:
    text = COMPUTE.replace("SAY", "")
    text = text.replace("stake if a.choice == 'bet' and b.choice == 'fold' else 0", "a.index + stake")
    played = play(text, {"one": ["?"], "two": ["fold", "bye"]})
    assert (played.episode.stop, played.episode.error) == ("end", None)
    assert next(turn.fields for turn in played.turns if turn.node == "payoff") == {"one": None, "who": "none"}


CONSENSUS = """
name: society
params: {rounds: 3}
roles: {agent: {count: 2, sees: [question, answers]}}
nodes: {answer: {speak: agent, output: {choice: answers}}}
edges:
  - start -> answer
  - {from: answer, to: end, when: agreement(answer.choice) == 1, stop: consensus}
  - {from: answer, to: answer, times: rounds - 1}
  - answer -> end
"""


def test_early_stop_gives_the_reason(play) -> None:
    def says(ask):
        return "5" if ask.visit or ask.role == "agent-1" else "6"

    played = play(CONSENSUS, {"agent": says}, task=QUESTION)
    assert played.episode.stop == "consensus"
    assert [turn.superstep for turn in played.turns] == [0, 0, 1, 1]
    played = play(CONSENSUS, {"agent": lambda ask: "56"[ask.role == "agent-1"]}, task=QUESTION)
    assert (played.episode.stop, len(played.turns)) == ("end", 6)
