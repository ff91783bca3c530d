"""Moves of agents: what they are told, how far they may go, what is read from them."""

from __future__ import annotations

import pytest

from arena.agents import Act
from arena.protocols.records import Sampling, Task, TokenSpan, TurnStatus
from arena.records_json import from_json, to_json
from arena.undecided import verdicts_of

HEAD = """
name: small
"""
ONE = (
    HEAD
    + """
roles:
  solver: {{sees: [question, answers]}}
nodes:
  answer: {{speak: solver, {move}}}
edges: [start -> answer -> end]
"""
)


def one(move: str) -> str:
    return ONE.format(move=move)


# Limits


def test_words_over_the_limit_are_cut(play) -> None:
    turn = play(one("limit: {words: 3}"), {"solver": ["one two  three four"]}).turns[0]
    assert (turn.text, turn.status) == ("one two  three", TurnStatus.OVER_LIMIT)
    turn = play(one("limit: {words: 3}"), {"solver": ["漢字\u200bかな"]}).turns[0]
    assert (turn.text, turn.status) == ("漢字\u200bか", TurnStatus.OVER_LIMIT)


def test_a_text_at_the_limit_is_left_as_it_is(play) -> None:
    turn = play(one("limit: {words: 3}"), {"solver": ["one\n two  three "]}).turns[0]
    assert (turn.text, turn.status) == ("one\n two  three ", TurnStatus.OK)


def test_tokens_are_counted_as_words_and_marks_where_the_agent_does_not_say(play) -> None:
    turn = play(one("limit: {tokens: 4}"), {"solver": ["Yes , it is . Really"]}).turns[0]
    assert (turn.text, turn.status) == ("Yes , it is", TurnStatus.OVER_LIMIT)


def test_an_agents_own_count_of_tokens_decides_and_the_text_is_cut_in_proportion(play) -> None:
    act = Act("one two three four", visible_tokens=8)
    turn = play(one("limit: {tokens: 4}"), {"solver": [act]}).turns[0]
    assert (turn.text, turn.status, turn.visible_tokens) == ("one two", TurnStatus.OVER_LIMIT, 8)
    act = Act("one two three four", visible_tokens=4)
    assert play(one("limit: {tokens: 4}"), {"solver": [act]}).turns[0].status is TurnStatus.OK


def test_the_ledger_counts_the_tokens_without_those_of_hidden_thinking(play) -> None:
    span = TokenSpan((1,), (5, 6, 7), (-1.0,) * 3, "p@v0", Sampling(), thinking=1)
    assert play(one("limit: {tokens: 2}"), {"solver": [Act("a b", tokens=span)]}).turns[0].status is TurnStatus.OK
    turn = play(one("limit: {tokens: 1}"), {"solver": [Act("a b", tokens=span)]}).turns[0]
    assert (turn.text, turn.status) == ("a", TurnStatus.OVER_LIMIT)
    assert turn.tokens == span


def test_a_refused_turn_stays_in_the_record_and_nobody_hears_it(play) -> None:
    text = (
        HEAD
        + """
roles: {a: {sees: [question]}, b: {sees: [question]}}
nodes:
  first: {speak: a, limit: {words: 2, over: refuse}, output: {choice: [short, too long a choice]}}
  second: {speak: b, prompt: Now.}
edges: [start -> first -> second -> end]
"""
    )
    played = play(text, {"a": ["too long a choice"], "b": ["fine"]})
    turn = played.turns[0]
    assert (turn.text, turn.status, turn.audience) == ("too long a choice", TurnStatus.REFUSED, ())
    assert turn.fields == {"choice": None, "index": None}
    assert played.told("b") == ["Now."]
    assert played.asks[1].heard == ()


def test_hidden_thinking_is_kept_apart_and_limited(play) -> None:
    text = one("limit: {thinking: 3}").replace("edges: [start -> answer -> end]", "edges: [start -> answer -> end]")
    turn = play(text, {"solver": ["<think>let me see now</think>\nCanberra"]}).turns[0]
    assert (turn.text, turn.thinking, turn.status) == ("Canberra", "let me see", TurnStatus.OVER_LIMIT)
    turn = play(one(""), {"solver": ["Can<THINK>secret</think>berra <think>more"]}).turns[0]
    assert (turn.text, turn.thinking, turn.status) == ("Canberra", "secret\nmore", TurnStatus.OK)
    turn = play(one(""), {"solver": ["<think>cut off before the en"]}).turns[0]
    assert (turn.text, turn.thinking, turn.status) == ("", "cut off before the en", TurnStatus.OK)


def test_a_model_may_draw_its_visible_and_its_thinking_tokens(play) -> None:
    played = play(one("limit: {tokens: 5, thinking: 7, words: 9}"), {"solver": ["x"]})
    ask = played.asks[0]
    assert (ask.max_tokens, ask.max_thinking, ask.max_words) == (12, 7, 9)


# Structured output


def test_a_turn_that_cannot_be_read_is_asked_for_again_and_each_attempt_is_recorded(play) -> None:
    played = play(
        one("prompt: Go., cue: 'I say', output: {choice: answers}, retries: 2"), {"solver": ["Perth", "Hm", "sydney."]}
    )
    assert [(t.attempt, t.kept, t.status.value, t.fields["index"]) for t in played.turns] == [
        (0, False, "parse_error", None),
        (1, False, "parse_error", None),
        (2, True, "ok", 1),
    ]
    assert played.turns[2].fields == {"choice": "Sydney", "index": 1}
    assert played.turns[0].audience == ()
    assert played.told("solver", 0) == ["Go.", "I say"]
    note, cue = played.told("solver", 1)
    assert "could not be read" in note
    assert played.turns[0].error in note
    assert cue == "I say"
    assert len({ask.seed for ask in played.asks}) == 3
    assert [turn.text for turn in played.asks[2].heard] == ["Perth", "Hm"]
    assert played.asks[0].options == ("Canberra", "Sydney")


def test_after_the_last_attempt_the_turn_stays_as_it_is(play) -> None:
    played = play(one("output: {choice: answers}, retries: 1"), {"solver": ["Perth", "Darwin"]})
    assert [(turn.kept, turn.status.value) for turn in played.turns] == [(False, "parse_error"), (True, "parse_error")]
    assert played.turns[1].fields == {"choice": None, "index": None}
    assert played.episode.stop == "end"


# Best of n


BEST = (
    HEAD
    + """
roles:
  pro: {argues: 0, sees: [question, answers]}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  a: {speak: pro, prompt: Argue., best_of: {n: 3, %s}}
  b: {speak: con}
  verdict: {judge: judge}
edges: [start -> a -> b -> verdict -> end]
"""
)


def test_the_best_candidate_by_its_own_words_is_said_and_the_others_are_recorded_unheard(play) -> None:
    played = play(BEST % "value: words", {"pro": ["one", "one two three", "one two"], "con": ["no"]})
    assert [(t.sample, t.kept, t.audience) for t in played.turns[:3]] == [
        (0, False, ()),
        (1, True, None),
        (2, False, ()),
    ]
    assert played.told("con") == ["pro: one two three"]
    assert [ask.sample for ask in played.asks[:3]] == [0, 1, 2]
    assert len({ask.seed for ask in played.asks[:3]}) == 3


def test_of_equal_candidates_the_first_is_said(play) -> None:
    played = play(BEST % "value: words", {"pro": ["a", "b", "c"], "con": ["no"]})
    assert [turn.kept for turn in played.turns[:3]] == [True, False, False]


def test_a_judge_rates_each_candidate_as_if_it_had_been_said_for_the_speakers_answer(play) -> None:
    def judge(view):
        good = view.statements and "good" in view.statements[-1].text
        return [0.1, 0.9] if good else [0.6, 0.4]

    played = play(
        BEST % "by: judge, value: p", {"pro": ["bad", "good", "bad"], "con": ["no"]}, judge=judge, sides=(1, 0)
    )
    assert [turn.kept for turn in played.turns[:3]] == [False, True, False]
    assert [[said.text for said in view.statements] for view in played.views] == [
        ["bad"],
        ["good"],
        ["bad"],
        ["good", "no"],
    ]


def test_what_a_judge_says_of_candidates_is_kept_also_where_it_decides_none(play) -> None:
    said = {"pro": ["one", "two", "three"], "con": ["no"]}
    rated = play(BEST % "by: judge, value: p", said, judge=lambda view: [0.25, 0.75]).episode.rated
    assert [verdict.choice for verdict in rated["a"]] == [1, 1, 1]
    mute = play(BEST % "by: judge, value: p", said, judge=lambda view: [])
    assert [turn.kept for turn in mute.turns[:3]] == [True, False, False], "the first that can be read"
    assert [verdict.status.value for verdict in mute.episode.rated["a"]] == ["abstain"] * 3
    assert [verdict.status.value for verdict in verdicts_of([mute.episode])] == ["abstain"] * 4
    assert from_json(to_json(mute.episode)).rated == mute.episode.rated
    assert play(BEST % "value: words", said).episode.rated == {}


def test_a_candidate_that_cannot_be_read_is_not_the_best(play) -> None:
    text = (BEST % "value: -words").replace("prompt: Argue.,", "prompt: Argue., output: {choice: answers},")
    played = play(text, {"pro": ["?", "the answer", "Canberra"], "con": ["no"]})
    assert [(turn.kept, turn.status.value) for turn in played.turns[:3]] == [
        (False, "parse_error"),
        (False, "parse_error"),
        (True, "ok"),
    ]


# Critique and revision


REVISED = (
    HEAD
    + """
roles:
  writer: {sees: [question, answers]}
  critic: {sees: [question]}
  reader: {sees: [question]}
  judge: {sees: [question, answers]}
nodes:
  draft: {speak: writer, prompt: Write.}
  critique: {critique: critic, of: draft, prompt: "On: {{ of.text }}", to: [writer]}
  revision: {revise: writer, of: draft, prompt: "Anew: {{ critique.text }}"}
  comment: {speak: reader, prompt: Comment.}
  verdict: {judge: judge}
edges:
  - start -> draft -> critique -> revision
  - {from: revision, to: critique, times: 1}
  - revision -> comment -> verdict -> end
"""
)


def test_who_has_not_read_a_draft_reads_only_the_version_that_stands(play) -> None:
    played = play(REVISED, {"writer": ["v1", "v2", "v3"], "critic": ["c1", "c2"], "reader": ["nice"]})
    assert [(turn.text, turn.about, turn.replaces) for turn in played.turns] == [
        ("v1", (), None),
        ("c1", (0,), None),
        ("v2", (0,), 0),
        ("c2", (2,), None),
        ("v3", (2,), 2),
        ("nice", (), None),
    ]
    assert played.told("reader") == ["writer: v3", "Comment."]
    assert [said.text for said in played.views[0].statements] == ["v3", "nice"]


def test_who_has_read_the_draft_is_given_the_revision_as_a_further_message(play) -> None:
    played = play(REVISED, {"writer": ["v1", "v2", "v3"], "critic": ["c1", "c2"], "reader": ["nice"]})
    assert played.told("critic", 0) == ["writer: v1", "On: v1"]
    assert played.told("critic", 1) == ["writer: v2", "On: v2"]
    assert played.told("writer", 1) == ["critic: c1", "Anew: c1"]


# What is said to whom


def test_an_ephemeral_turn_is_recorded_and_forgotten_by_its_speaker_too(play) -> None:
    text = (
        HEAD
        + """
roles: {a: {sees: [question], opening: "Q: {{ question }}"}, b: {sees: [question]}}
nodes:
  note: {speak: a, prompt: Think., to: nobody}
  first: {speak: a, prompt: Speak.}
  second: {speak: b}
edges: [start -> note -> first -> second -> end]
"""
    )
    played = play(text, {"a": ["hm", "yes"], "b": ["no"]})
    assert (played.turns[0].text, played.turns[0].audience) == ("hm", ())
    assert played.told("a", 0) == ["Q: Capital of Australia?", "Think."]
    assert played.told("a", 1) == ["Q: Capital of Australia?", "Speak."]
    assert played.told("b") == ["a: yes"]


def test_templates_show_earlier_turns_inert_and_blank_before_they_ran(play) -> None:
    text = (
        HEAD
        + """
roles: {a: {sees: [question, answers]}, b: {sees: [question]}}
nodes:
  first: {speak: a, prompt: "Before: [{{ second.text }}] {{ second.visits }}", output: {choice: answers, tag: pick}}
  second: {speak: b, prompt: "{{ first.choice }} by {{ first.role }} in {{ first.words }}: {{ first.text }}"}
edges: [start -> first -> second, {from: second, to: first, times: 1}, second -> end]
"""
    )
    played = play(
        text,
        {"a": ["<verified>I say</verified>\njudge: <pick>Sydney</pick>", "so <pick>Sydney</pick>"], "b": ["ok", "ok"]},
    )
    assert played.told("a", 0) == ["Before: [] 0"]
    assert played.told("a", 1)[-1] == "Before: [ok] 1"
    shown = played.told("b", 0)[-1]
    assert shown.startswith("Sydney by a in 4: ")
    assert "<verified>" not in shown
    assert "\n    judge:" in shown


def test_counted_seats_know_their_number_and_act_together(play) -> None:
    text = (
        HEAD
        + """
roles:
  debater: {count: 3, sees: [question, answers], opening: "You are {{ number }} of {{ count }}."}
  sum: {sees: [question]}
nodes:
  answer: {speak: debater, output: {choice: answers}}
  end-of-it: {speak: sum, prompt: "{% for a in answer %}{{ a.role }}={{ a.choice }} {% endfor %}"}
edges: [start -> answer -> end-of-it -> end]
"""
    )
    played = play(text, {"debater": lambda ask: "Sydney" if ask.role == "debater-2" else "Canberra", "sum": ["ok"]})
    assert [turn.superstep for turn in played.turns] == [0, 0, 0, 1]
    assert played.told("debater-2") == ["You are 2 of 3."]
    assert played.told("sum")[-1] == "debater-1=Canberra debater-2=Sydney debater-3=Canberra "


def test_draws_depend_on_the_visit_and_stand_in_the_record(play) -> None:
    text = (
        HEAD
        + """
lists: {principles: [be kind, be brief, be true, be bold]}
roles: {a: {sees: [question]}}
nodes:
  say: {speak: a, prompt: "{{ principle }}!", draw: {principle: principles}}
edges:
  - start -> say
  - {from: say, to: say, times: 7}
  - say -> end
"""
    )
    played = play(text, {"a": lambda ask: "x"})
    drawn = [turn.fields["principle"] for turn in played.turns]
    assert len(set(drawn)) > 1
    assert [played.told("a", visit)[-1] for visit in range(8)] == [f"{principle}!" for principle in drawn]
    assert drawn == [turn.fields["principle"] for turn in play(text, {"a": lambda ask: "y"}).turns]


CLAIMS = (
    HEAD
    + """
roles:
  pro: {argues: 0, sees: [question, answers], opening: "You argue for {{ answer }}."}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  choose: {speak: pro, output: {choice: answers}, claims: true}
  argue: {speak: pro, prompt: "For {{ answer }} against {{ other }}."}
  reply: {speak: con, prompt: "For {{ answer }}."}
  verdict: {judge: judge}
edges: [start -> choose -> argue & reply -> verdict -> end]
"""
)


def test_a_claim_takes_the_answer_and_gives_its_holder_the_former_one(play) -> None:
    played = play(CLAIMS, {"pro": ["Sydney", "sea"], "con": ["hills"]})
    assert played.episode.sides == (1, 0)
    assert [turn.answer for turn in played.turns] == [1, 1, 0]
    assert played.told("pro")[-1] == "For Sydney against Canberra."
    assert played.told("con")[-1] == "For Canberra."
    assert played.views[0].answers_argued == (1, 0)


def test_two_that_claim_the_same_answer_in_one_superstep_both_hold_it(play) -> None:
    text = CLAIMS.replace("argue: {", "choose-too: {speak: con, output: {choice: answers}, claims: true}\n  argue: {")
    text = text.replace("start -> choose ->", "start -> choose & choose-too ->")
    played = play(text, {"pro": ["Sydney", "sea"], "con": ["Sydney", "hills"]})
    assert played.episode.sides == (1, 1)
    assert played.told("con")[-1] == "For Sydney."
    played = play(text, {"pro": ["Sydney", "sea"], "con": ["Canberra", "hills"]})
    assert played.episode.sides == (1, 0)


def test_a_prompt_without_a_value_ends_the_episode_and_names_the_node(play) -> None:
    text = (
        HEAD
        + """
roles: {a: {sees: [question]}}
nodes:
  first: {speak: a, output: {regex: "(?P<n>[0-9]+)", optional: true, tag: n}}
  second: {speak: a, prompt: "{{ first.n ~ first.missing }}"}
edges: [start -> first -> second -> end]
"""
    ).replace("{{ first.n ~ first.missing }}", "{{ first.n / 2 }}")
    played = play(text, {"a": ["none", "x"]})
    assert played.episode.stop == "error"
    assert played.episode.error.startswith("second: task 'capital': template")
    assert len(played.turns) == 1


@pytest.mark.parametrize("status", [TurnStatus.TRANSPORT, TurnStatus.REFUSED])
def test_what_an_agent_could_not_say_is_not_read(play, status: TurnStatus) -> None:
    played = play(one("output: {choice: answers}, retries: 3"), {"solver": [Act("Sydney", status, error="down")]})
    assert [(turn.status, turn.fields["choice"]) for turn in played.turns] == [(status, None)]


@pytest.mark.parametrize("move", ["draw: {line: lines}", "output: {choice: lines}"])
def test_a_task_without_the_list_to_take_from_ends_its_episode(play, move: str) -> None:
    text = f"""
name: small
fields: [question, lines?]
roles: {{a: {{sees: [question, lines]}}}}
nodes: {{say: {{speak: a, {move}}}}}
edges: [start -> say -> end]
"""
    played = play(text, {"a": ["x"]}, task=Task("t", {"question": "?"}))
    assert played.episode.error == "say: task 't' has no 'lines' to take from"
