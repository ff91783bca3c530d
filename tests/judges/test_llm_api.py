"""A judge behind a server: log-probs as far as they are told, words else, and every fault by its name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import fault_server
import pytest

pytest.importorskip("openai")

from arena.agents.call_cache import CallCache
from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.asking import ask_judge
from arena.judges.verdicts import FLOOR
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus
from arena.testing import check_judge


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = fault_server.FaultServer()
    yield running
    running.close()


def judge(server: Any, **options: Any) -> Any:
    args = {"model": "m", "base_url": server.url, "retries": 0, **options}
    return JUDGES.build({"kind": "llm-api", **args})


def view(answers: tuple[str, ...] = ("floats", "sinks"), key: str = "k") -> JudgeView:
    said = [Statement("pro", 0, "It is light."), Statement("con", 1, "It is solid.")]
    return JudgeView(key, "Ice?", answers, said, answers_argued=tuple(range(len(answers))))


def letter(text: str, answer: str) -> str:
    return text[text.index(f") {answer}\n") - 1]


def told(text: str, *top: tuple[str, float]) -> Any:
    """A reply with the likeliest first tokens, each with its probability."""
    listed = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in top]
    answer = json.loads(fault_server.completion(text).body)
    answer["choices"][0]["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
    return fault_server.reply(answer)


def asked(received: Any) -> str:
    return str(received.body["messages"][0]["content"])


def one(made: Any, **options: Any) -> Verdict:
    return ask_judge(made, [view(**options)])[0]


def test_the_spellings_that_the_server_lists_are_summed_in_both_orders(server):
    def answer(received: Any) -> Any:
        mine, other = (letter(asked(received), each) for each in ("floats", "sinks"))
        shares = {"A": 0.5, "B": 0.3}  # fond of A
        return told(
            mine,
            (mine, shares[mine]),
            (f" {mine}", 0.1),
            (f"({mine})", 0.02),
            (other, 0.05),
            ("Answer", 0.02),
            ("a", 0.005),
        )

    server.script(answer)
    verdict = one(judge(server))
    p = (0.62 / 0.67 + 0.42 / 0.47) / 2
    assert [math.exp(logp) for logp in verdict.logps] == pytest.approx([p, 1 - p])
    assert verdict.evidence["mass"] == pytest.approx((0.67 + 0.47) / 2)
    assert verdict.evidence["lower_bounds"]
    assert verdict.evidence["unlisted_at_most"] == pytest.approx(0.005)
    assert [body["max_tokens"] for body in server.bodies] == [1, 1]
    assert verdict.stated is None


def test_an_answer_without_any_token_is_undecidable(server):
    server.script(lambda received: told("A", ("A", 0.9), ("Answer", 0.05)))
    verdict = one(judge(server))
    assert verdict.status is VerdictStatus.ABSTAIN
    assert verdict.evidence["reason"].startswith("answer 2 is not among the 2 likeliest tokens in the order 1 2")


def test_without_log_probs_words_decide_in_both_orders(server):
    server.script(lambda received: fault_server.completion(f"Answer: {letter(asked(received), 'sinks')}"))
    verdict = one(judge(server))
    assert verdict.logps == (FLOOR, 0.0)
    assert verdict.stated == 1
    assert [each["text"] for each in verdict.evidence["stated"]["orders"]] == ["Answer: B", "Answer: A"]
    assert len(server.received) == 4


def test_a_server_that_refuses_log_probs_is_asked_for_words(server):
    def answer(received: Any) -> Any:
        if "logprobs" in received.body:
            return fault_server.error(400, "logprobs are not supported")
        return fault_server.completion(letter(asked(received), "floats"))

    server.script(answer)
    assert one(judge(server)).choice == 0
    verdict = one(judge(server, decide_by="logps"))
    assert verdict.status is VerdictStatus.TRANSPORT
    assert "logprobs are not supported" in verdict.evidence["reason"]


def test_orders_that_disagree_are_contradictory(server):
    server.script(fault_server.completion("A"))
    assert one(judge(server, decide_by="stated")).status is VerdictStatus.CONTRADICTORY


def test_a_rationale_that_does_not_answer_is_asked_again(server):
    def answer(received: Any) -> Any:
        if len(received.body["messages"]) == 1:
            return fault_server.completion("A is a letter, and so is B", finish="length")
        return fault_server.completion(letter(asked(received), "floats"))

    server.script(answer)
    verdict = one(judge(server, decide_by="stated", rationale=50, reserve=9, thinking=200))
    assert verdict.choice == 0
    limits = [(len(body["messages"]), body["max_tokens"]) for body in server.bodies]
    assert sorted(limits) == [(1, 259), (1, 259), (3, 209), (3, 209)]


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        ({"text": "No.", "refusal": "I will not judge."}, VerdictStatus.ABSTAIN, "refused to judge"),
        ({"text": "", "finish": "content_filter"}, VerdictStatus.ABSTAIN, "refused to judge"),
        ({"text": "", "finish": "length", "reasoning": "Hm, hm"}, VerdictStatus.TRUNCATED, "used up all tokens"),
        ({"text": "It floats, I think."}, VerdictStatus.PARSE_ERROR, "states none"),
        ({"text": "Answer: A", "finish": "length"}, VerdictStatus.TRUNCATED, "before the limit"),
    ],
)
def test_what_cannot_be_read_says_why(server, reply, status, reason):
    server.script(fault_server.completion(reply.pop("text"), **reply))
    verdict = one(judge(server, decide_by="stated"))
    assert verdict.status is status
    assert reason in verdict.evidence["reason"]


def test_faults_of_the_server_are_transport_and_the_other_views_go_on(server):
    def answer(received: Any) -> Any:
        text = asked(received)
        return fault_server.error(500, "broken") if "boils" in text else fault_server.completion(letter(text, "floats"))

    server.script(answer)
    fine, broken = ask_judge(judge(server, decide_by="stated"), [view(), view(("floats", "boils"))])
    assert fine.choice == 0
    assert broken.status is VerdictStatus.TRANSPORT
    server.script(fault_server.Answer(silent=True))
    verdict = one(judge(server, decide_by="stated", timeout=0.2))
    assert verdict.status is VerdictStatus.TRANSPORT
    assert "no answer within 0.2 s" in verdict.evidence["reason"]


def test_log_probs_of_the_first_token_do_not_go_with_reasons(server):
    assert judge(server, rationale=50).decide_by == "stated"
    with pytest.raises(ConfigError, match="first token"):
        judge(server, rationale=50, decide_by="logps")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"decide_by": "logps", "temperature": 0.7}, "temperature=0.7"),
        ({"decide_by": "logps", "reserve": 9}, "reserve=9"),
        ({"decide_by": "stated", "top": 5}, "top= is for log-probs"),
        ({"rationale": 9, "top": 5}, "top= is for log-probs"),
        ({"decide_by": "stated", "average": "logps"}, "average= is for log-probs"),
        ({"decide_by": "stated", "any_case": True}, "any_case= is for log-probs"),
        ({"cue": "So:"}, "prefill=true"),
        ({"reads": "passage"}, "names 'items'"),
    ],
)
def test_options_that_would_change_nothing_are_refused(server, options, fault):
    with pytest.raises(ConfigError, match=fault):
        judge(server, **options)


def test_a_wrong_key_ends_the_run(server):
    server.script(fault_server.error(401, "no such key"))
    with pytest.raises(ConfigError, match="no such key"):
        one(judge(server, decide_by="stated"))


def test_calls_are_counted_and_come_from_the_cache_the_second_time(server, tmp_path):
    server.script(lambda received: fault_server.completion(letter(asked(received), "floats")))
    first, again = (judge(server, decide_by="stated", cache=str(tmp_path)) for _ in range(2))
    assert one(first).logps == one(again).logps
    assert (first.usage.calls, first.usage.prompt_tokens) == (2, 20)
    assert (again.usage.calls, again.usage.from_cache) == (0, 2)
    assert CallCache(tmp_path).path.exists()


def test_it_keeps_what_judges_promise(server):
    def answer(received: Any) -> Any:
        text = asked(received)
        tops = [(letter(text, each), p) for each, p in (("floats", 0.6), ("sinks", 0.3))]
        return told("A", *tops)

    server.script(answer)
    check_judge(judge(server), lambda: [view(), view(key="l"), JudgeView("m", "?", ("floats",))])


def test_a_prefill_is_sent_only_where_the_server_takes_one(server):
    server.script(lambda received: fault_server.completion(letter(asked(received), "floats")))
    one(judge(server, decide_by="stated", prefill=True))
    assert server.bodies[-1]["messages"][-1] == {"role": "assistant", "content": "Answer:"}
    assert server.bodies[-1]["continue_final_message"] is True
    one(judge(server, decide_by="stated"))
    assert len(server.bodies[-1]["messages"]) == 1


def test_what_decides_its_verdicts_is_in_its_name(server):
    names = [
        judge(server, **options).name
        for options in ({}, {"model": "n"}, {"rationale": 5}, {"decide_by": "stated"}, {"temperature": 1.0}, {"top": 5})
    ]
    assert len(set(names)) == len(names)
    assert judge(server, timeout=3.0, cache="").name == names[0]
