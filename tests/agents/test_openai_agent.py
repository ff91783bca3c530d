"""What an agent asks an OpenAI-compatible server, and what becomes of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from arena.agents.openai import Endpoint, Limits, OpenAIAgent, Settings
from arena.agents.types import Act, Ask, Context, Message
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.loader import compile_document
from arena.protocols.outputs import OutputRule
from arena.protocols.records import Task, TurnStatus

OPENING, PROMPT = Message("opening", "Argue for A."), Message("prompt", "Go on.")


def make(server: Any, **settings: Any) -> OpenAIAgent:
    return OpenAIAgent("speaker", Endpoint.at(server.url), Settings("m", **settings), Limits(retries=0))


def make_ask(context: Context, *new: Message, max_tokens: int | None = None, seed: int = 5, **rest: Any) -> Ask:
    return Ask("e", "n", "r", 0, seed, context, new, max_tokens, 0, Task("t", {}), (), **rest)


def speak(agent: OpenAIAgent, *asks: Ask) -> list[Act]:
    """One turn after the other, in one event loop."""

    async def all_turns() -> list[Act]:
        return [await agent.answer(ask) for ask in asks]

    return asyncio.run(all_turns())


def messages(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in body["messages"]]


# The chat


def test_a_role_is_told_its_own_view_as_a_chat(server: Any, faults: Any) -> None:
    server.script(faults.completion("First."), faults.completion("Second."))
    context = Context()
    heard = Message("heard", "con: No."), Message("heard", "critic: Weak.")
    speak(make(server), make_ask(context, OPENING, PROMPT), make_ask(context, *heard, PROMPT))
    assert messages(server.bodies[0]) == [("system", "Argue for A."), ("user", "Go on.")]
    assert messages(server.bodies[1]) == [
        ("system", "Argue for A."),
        ("user", "Go on."),
        ("assistant", "First."),
        ("user", "con: No.\n\ncritic: Weak.\n\nGo on."),
    ]
    assert server.received[0].path == "/v1/chat/completions"


def test_no_token_ids_are_made_up(server: Any) -> None:
    context = Context()
    (act,) = speak(make(server), make_ask(context, PROMPT))
    assert (act.text, act.status, act.tokens, context.ids) == ("fine", TurnStatus.OK, None, [])


def test_branches_of_a_context_do_not_see_each_other(server: Any, faults: Any) -> None:
    server.script(faults.completion("one"), faults.completion("two"), faults.completion("three"))
    agent, stem = make(server), Context()
    speak(agent, make_ask(stem, PROMPT))
    left, right = Context([], stem.state), Context([], stem.state)
    speak(agent, make_ask(left, PROMPT), make_ask(right, PROMPT))
    assert messages(server.bodies[2]) == [("user", "Go on."), ("assistant", "one"), ("user", "Go on.")]


def test_what_was_told_before_a_failure_is_told_with_the_next_turn(server: Any, faults: Any) -> None:
    server.script(faults.error(500), faults.completion())
    context = Context()
    speak(make(server), make_ask(context, OPENING, PROMPT), make_ask(context, Message("prompt", "Again.")))
    assert messages(server.bodies[1]) == [("system", "Argue for A."), ("user", "Go on.\n\nAgain.")]


def test_an_empty_turn_leaves_no_empty_message(server: Any, faults: Any) -> None:
    server.script(faults.completion(None), faults.completion())
    context = Context()
    first, _ = speak(make(server), make_ask(context, PROMPT), make_ask(context, PROMPT))
    assert (first.text, first.status) == ("", TurnStatus.OK)
    assert messages(server.bodies[1]) == [("user", "Go on.\n\nGo on.")]


def test_a_role_that_is_told_nothing_new_still_gets_its_turn(server: Any) -> None:
    context = Context()
    speak(make(server), make_ask(context, OPENING), make_ask(context))
    assert messages(server.bodies[1])[1:] == [
        ("user", "It is your turn."),
        ("assistant", "fine"),
        ("user", "It is your turn."),
    ]


def test_an_opening_that_comes_later_is_told_by_the_user(server: Any) -> None:
    context = Context()
    speak(make(server), make_ask(context, PROMPT), make_ask(context, OPENING))
    assert messages(server.bodies[1])[-1] == ("user", "Argue for A.")


def test_a_cue_is_an_instruction_and_no_part_of_the_turn(server: Any, faults: Any) -> None:
    server.script(faults.completion("I say: yes"), faults.completion("no"))
    cue = Message("cue", "I say:")
    acts = speak(make(server), make_ask(Context(), PROMPT, cue), make_ask(Context(), PROMPT, cue))
    assert messages(server.bodies[0]) == [("user", "Go on.\n\nBegin your answer with: I say:")]
    assert [act.text for act in acts] == ["yes", "no"]


def test_a_server_that_can_goes_on_from_the_cue(server: Any, faults: Any) -> None:
    server.script(faults.completion(" yes"))
    context = Context()
    agent = make(server, prefill=True)
    acts = speak(agent, make_ask(context, PROMPT, Message("cue", "I say:")), make_ask(context, PROMPT))
    assert messages(server.bodies[0]) == [("user", "Go on."), ("assistant", "I say:")]
    assert server.bodies[0]["continue_final_message"] is True
    assert server.bodies[0]["add_generation_prompt"] is False
    assert acts[0].text == "yes"
    assert messages(server.bodies[1])[1] == ("assistant", "I say: yes")
    assert "continue_final_message" not in server.bodies[1]


def test_a_text_that_cannot_be_sent_is_sent_without_what_breaks_it(server: Any) -> None:
    (act,) = speak(make(server), make_ask(Context(), Message("heard", "half \ud800 pair")))
    assert messages(server.bodies[0]) == [("user", "half ? pair")]
    assert act.status is TurnStatus.OK


# The request


def test_a_request_says_how_to_draw(server: Any) -> None:
    speak(make(server, temperature=0.5, top_p=0.9, max_tokens=50), make_ask(Context(), PROMPT, max_tokens=20, seed=6))
    asked = {key: value for key, value in server.bodies[0].items() if key != "messages"}
    assert asked == {"model": "m", "temperature": 0.5, "top_p": 0.9, "max_tokens": 20, "seed": 6}


def test_what_is_not_given_is_left_to_the_server(server: Any) -> None:
    speak(make(server, max_tokens=50, seed=False), make_ask(Context(), PROMPT, max_tokens=80))
    assert server.bodies[0].keys() == {"model", "messages", "max_tokens"}
    assert server.bodies[0]["max_tokens"] == 50


def test_the_same_ask_sends_the_same_seed_and_it_has_31_bits(server: Any) -> None:
    seed = 2**63 + 12345
    speak(make(server), make_ask(Context(), PROMPT, seed=seed), make_ask(Context(), PROMPT, seed=seed))
    assert [body["seed"] for body in server.bodies] == [12345, 12345]


def test_openai_itself_is_given_the_new_name_of_the_limit(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.agents.openai.endpoint.OPENAI_URL", server.url)
    speak(make(server, max_tokens=9), make_ask(Context(), PROMPT))
    assert server.bodies[0]["max_completion_tokens"] == 9
    assert "max_tokens" not in server.bodies[0]


# The answer


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        ("stop", TurnStatus.OK),
        ("length", TurnStatus.TRUNCATED),
        ("content_filter", TurnStatus.REFUSED),
        ("something new", TurnStatus.OK),
    ],
)
def test_how_an_answer_ended_is_its_status(server: Any, faults: Any, finish: str, status: TurnStatus) -> None:
    server.script(faults.completion(" so\n", finish=finish))
    (act,) = speak(make(server), make_ask(Context(), PROMPT))
    assert (act.status, act.text) == (status, "so")


def test_a_refusal_keeps_its_words(server: Any, faults: Any) -> None:
    server.script(faults.completion(None, refusal="I cannot."))
    (act,) = speak(make(server), make_ask(Context(), PROMPT))
    assert (act.status, act.text) == (TurnStatus.REFUSED, "I cannot.")
    assert act.error


@pytest.mark.parametrize(
    ("content", "extra", "text", "thinking"),
    [
        ("so", {"reasoning_content": "hm"}, "so", "hm"),
        ("so", {"reasoning": "hm"}, "so", "hm"),
        ("\n<think>\nhm\n</think>\n\nso", {}, "so", "hm"),
        ("<think>hm", {}, "", "hm"),
        ("so <think>loud</think>", {}, "so", "loud"),
        ([{"type": "text", "text": "so"}, {"type": "image"}], {}, "so", ""),
        ("so", {"reasoning_content": 5}, "so", ""),
    ],
)
def test_hidden_thinking_is_told_apart(
    server: Any, faults: Any, content: Any, extra: dict[str, Any], text: str, thinking: str
) -> None:
    server.script(faults.completion(content, **extra))
    (act,) = speak(make(server), make_ask(Context(), PROMPT))
    assert (act.text, act.thinking) == (text, thinking)


def test_hidden_thinking_is_not_told_to_the_speaker_again(server: Any, faults: Any) -> None:
    server.script(faults.completion("<think>secret plan</think>so"))
    context = Context()
    speak(make(server), make_ask(context, PROMPT), make_ask(context, PROMPT))
    assert messages(server.bodies[1])[1] == ("assistant", "so")


def usage(completion: int, thinking: int | None) -> dict[str, Any]:
    counts: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": completion}
    return counts if thinking is None else counts | {"completion_tokens_details": {"reasoning_tokens": thinking}}


@pytest.mark.parametrize(
    ("counts", "thinking", "visible_tokens", "thinking_tokens"),
    [
        (usage(12, 9), "", 3, 9),  # thinking that the server does not show is counted all the same
        (usage(12, 0), "", 12, 0),
        (usage(12, None), "", 12, 0),
        (usage(12, None), "hm", None, 0),  # counted together: nobody knows how many are visible
        (usage(12, 50), "hm", 0, 12),
        (None, "", None, 0),
        ({"prompt_tokens": "many"}, "", None, 0),
        ([], "hm", None, 0),
    ],
)
def test_tokens_are_counted_as_the_server_tells(
    server: Any, faults: Any, counts: Any, thinking: str, visible_tokens: int | None, thinking_tokens: int
) -> None:
    server.script(faults.completion("so", usage=counts, reasoning_content=thinking))
    (act,) = speak(make(server), make_ask(Context(), PROMPT))
    assert (act.visible_tokens, act.thinking_tokens) == (visible_tokens, thinking_tokens)


# Forms

CHOICE = OutputRule("choice", choices=("yes", "no"))
CLOSED = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}


def form_of(server: Any, rule: OutputRule, *new: Message, options: Sequence[str] = ()) -> Any:
    speak(make(server, structured=True), make_ask(Context(), PROMPT, *new, output=rule, options=tuple(options)))
    return server.bodies[-1].get("response_format")


def test_a_choice_is_asked_for_by_schema_and_taken_out_of_it(server: Any, faults: Any) -> None:
    server.script(faults.completion('{"choice": "B"}'))
    context = Context()
    ask = make_ask(context, PROMPT, output=CHOICE, options=("A", "B"))
    first, _ = speak(make(server, structured=True), ask, make_ask(context, PROMPT))
    asked = server.bodies[0]["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["schema"]["properties"] == {"choice": {"type": "string", "enum": ["A", "B"]}}
    assert first.text == "B"
    assert messages(server.bodies[1])[1] == ("assistant", "B")


def test_what_a_choice_is_wrapped_in_does_not_count_for_the_limit_of_tokens(server: Any, faults: Any) -> None:
    server.script(faults.completion('{"choice": "yes"}', usage=(10, 6)))
    agent = make(server, structured=True, max_tokens=40)
    (act,) = speak(agent, make_ask(Context(), PROMPT, output=CHOICE, max_tokens=1))
    assert server.bodies[0]["max_tokens"] == 40
    assert (act.text, act.visible_tokens) == ("yes", None)


@pytest.mark.parametrize("text", ["no", '{"choice": 5}', "[1]", '{"choice": "no"'])
def test_a_choice_of_another_form_is_left_as_it_is(server: Any, faults: Any, text: str) -> None:
    server.script(faults.completion(text))
    (act,) = speak(make(server, structured=True), make_ask(Context(), PROMPT, output=CHOICE))
    assert act.text == text


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({"type": "object", "properties": {"n": {"type": "number"}}}, False),
        ({**CLOSED, "properties": {"n": {"type": "array", "items": {"type": "object"}}}}, False),
    ],
)
def test_a_schema_is_strict_where_openai_can_be_strict(server: Any, schema: dict[str, Any], strict: bool) -> None:
    asked = form_of(server, OutputRule("json", schema=schema))
    assert asked["json_schema"] == {"name": "turn", "schema": schema, "strict": strict}


def test_no_form_is_asked_for_where_words_around_it_are_free(server: Any) -> None:
    assert form_of(server, OutputRule("json", schema=CLOSED, tag="answer")) is None
    assert form_of(server, OutputRule("call", tools=("calculator",))) is None
    assert form_of(server, OutputRule("regex", pattern="(?P<n>.)")) is None
    assert form_of(server, CHOICE, Message("cue", "I choose")) is None


def test_no_form_is_asked_of_a_server_that_may_not_know_it(server: Any, faults: Any) -> None:
    server.script(faults.completion('{"choice": "yes"}'))
    (act,) = speak(make(server), make_ask(Context(), PROMPT, output=CHOICE))
    assert "response_format" not in server.bodies[0]
    assert act.text == '{"choice": "yes"}'


# Scores


def scored(server: Any, faults: Any, logprobs: Any, *options: str) -> tuple[float | None, ...]:
    body = {"choices": [{"message": {"content": "A"}, "logprobs": logprobs}], "usage": None}
    server.script(faults.reply(body))
    agent = make(server, logprobs=4)
    return asyncio.run(agent.score_choices([{"role": "user", "content": "A or B?"}], options))


def test_choices_are_scored_by_the_first_token(server: Any, faults: Any) -> None:
    top = [{"token": "A", "logprob": -1.0}, {"token": " A", "logprob": -1.0}, {"token": "B", "logprob": -2.5}]
    found = scored(server, faults, {"content": [{"top_logprobs": top}]}, "A", "B", "C")
    assert found == (pytest.approx(-1.0 + 0.6931471805599453), pytest.approx(-2.5), None)  # log 2 = 0.693...
    asked = {key: value for key, value in server.bodies[0].items() if key != "messages"}
    assert asked == {"model": "m", "temperature": 1.0, "logprobs": True, "top_logprobs": 4, "max_tokens": 1}


@pytest.mark.parametrize("logprobs", [None, {}, {"content": []}, {"content": [{"top_logprobs": []}]}])
def test_choices_are_not_scored_without_logprobs(server: Any, faults: Any, logprobs: Any) -> None:
    with pytest.raises(RuntimeError, match="gives no log-probs for 'm'"):
        scored(server, faults, logprobs, "A", "B")


# In the engine

PROTOCOL = """
name: talk
fields: [question]
roles:
  ann: {sees: [question], opening: "Answer {{ question }}"}
  bob: {sees: [question]}
nodes:
  a: {speak: ann, prompt: "Round {{ round }}."}
  b: {speak: bob}
edges:
  - start -> a -> b
  - {from: b, to: a, times: 1}
  - b -> end
"""


def test_an_agent_plays_in_the_engine_and_leaves_no_connection_behind(server: Any) -> None:
    agent = make(server)
    protocol = compile_document(parse_document(PROTOCOL))
    plans = [Plan(f"e{n}", Task("t", {"question": "Why?"}), {"ann": agent, "bob": agent}) for n in range(3)]
    episodes = [episode for some in Engine(protocol, {}, seed=0).stream(plans) for episode in some]
    assert [[turn.text for turn in episode.turns] for episode in episodes] == [["fine"] * 4] * 3
    assert agent.usage.calls == len(server.received) == 12
    assert agent.endpoint._rooms == {}
