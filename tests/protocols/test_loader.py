import pickle
from pathlib import Path
from typing import Any

import pytest

from arena.protocols import (
    ConfigError,
    Protocol,
    SourceError,
    Task,
    UnknownNameError,
    library,
    load_protocol,
    parse_document,
)
from arena.protocols.loader import compile_document

GAME = """\
name: game
params: {rounds: 2}
fields: [question, answers, passage]
roles:
  pro: {argues: 0, sees: [question, answers, passage], opening: "{{ answer }} {{ question }}"}
  con: {argues: 1, sees: [question, answers, passage]}
  judge: {sees: [question, answers]}
nodes:
  a: {speak: pro, quote: passage}
  b: {speak: con}
  verdict: {judge: judge}
edges:
  - start -> a & b -> verdict -> end
  - {from: a & b, to: a & b, times: rounds - 1}
rewards: {verdict: verdict, value: tanh(margin / 2), bad_quote: -1}
"""


def compiled(old: str = "", new: str = "", text: str = GAME) -> Protocol:
    assert old in text
    return compile_document(parse_document(text.replace(old, new, 1), "g"))


def faults(old: str, new: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        compiled(old, new)
    return str(caught.value).splitlines()


CHAIN = "start -> a & b -> verdict -> end"
B = "  b: {speak: con}"
TIMES = ", times: rounds - 1"
PASSAGE_TOO = "sees: [question, answers, passage], opening"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        # params and fields
        ("{rounds: 2}", "{rounds: 2, more: 1}", "g:2:21: params.more: param 'more' is used nowhere: remove it"),
        ("{rounds: 2}", "{rounds: 0}", "g:14:37: edges[1].times: 'rounds - 1' is -1; it must be from 0 to 10,000"),
        ("{rounds: 2}", "{rounds: 1.5}", "g:14:37: edges[1].times: 'rounds - 1' is 0.5, not a whole number"),
        ("{rounds: 2}", "{rounds: [2]}", "g:2:18: params.rounds: [2] is not a number or true or false or a text"),
        (
            "{rounds: 2}",
            "{rounds: 2, passage: x}",
            "g:2:21: params.passage: param 'passage' hides the field of that name: rename it",
        ),
        (
            "{rounds: 2}",
            "{rounds: 2, round: 1}",
            "g:2:21: params.round: 'round' has a meaning of its own: choose another name",
        ),
        (
            "answers, passage]\nroles",
            'answers, passage, "photo?"]\nroles',
            "g:3:38: fields[3]: no role sees field 'photo': add it to a role's 'sees', or remove it",
        ),
        (
            "answers, passage]\nroles",
            'answers, passage, "passage?"]\nroles',
            "g:3:38: fields[3]: field 'passage' is listed twice",
        ),
        (
            "judge: {sees: [question, answers]}",
            "judge: {sees: [question]}",
            "g:7:3: roles.judge: role 'judge' judges but does not see 'answers', so it could decide nothing: "
            "add it to 'sees'",
        ),
        # edges
        (
            TIMES,
            "",
            "g:14:5: edges[1]: the cycle a -> a never ends: bound one of its edges, as in {from: a, to: a, times: 2}",
        ),
        (
            TIMES,
            ", when: round < 3",
            "g:14:5: edges[1]: the cycle a -> a never ends: bound one of its edges, as in {from: a, to: a, times: 2}",
        ),
        (
            "times: rounds - 1",
            "times: round - 1",
            "g:14:37: edges[1].times: 'round' is not a name here. Did you mean 'rounds'?",
        ),
        (
            "times: rounds - 1",
            "times: 2, when: 2 + rond < 3",
            "g:14:50: edges[1].when: 'rond' is not a name here. Did you mean 'round'?",
        ),
        (
            "times: rounds - 1",
            "times: 1 + rounds.real",
            "g:14:41: edges[1].times: 'rounds' has no '.real': a dot reads what a node gave, as NODE.field",
        ),
        (
            "times: rounds - 1",
            "tims: 1",
            "g:14:30: edges[1].tims: 'tims' is not a key here. Did you mean 'times'?",
        ),
        (
            CHAIN,
            "start -> a & vedict -> verdict -> end",
            "g:13:18: edges[0]: 'vedict' is not a node of this protocol. Did you mean 'verdict'?",
        ),
        (CHAIN, "a & b -> verdict -> end", "g:13:3: edges: nothing begins: write an edge 'start -> NODE'"),
        (
            CHAIN,
            "start -> a & b -> verdict",
            "g:11:3: nodes.verdict: 'verdict' is a dead end: write where it leads, such as 'verdict -> end'",
        ),
        (CHAIN, "start -> a & b -> verdict", "g:13:3: edges: 'end' is never reached: write an edge 'NODE -> end'"),
        (
            CHAIN,
            "start -> a -> verdict -> end",
            "g:10:3: nodes.b: 'b' is never reached: only an edge from itself leads to it",
        ),
        (
            CHAIN,
            "start -> a & b -> end",
            "g:11:3: nodes.verdict: 'verdict' is never reached: no edge leads to it",
        ),
        (
            CHAIN,
            "start -> a -> b -> verdict -> end",
            "g:14:5: edges[1]: nothing follows 'a & b' once this edge may not be taken: "
            "add a plain edge 'a & b -> ...'",
        ),
        (CHAIN, "start -> a & b -> end -> verdict", "g:13:23: edges[0]: nothing can follow 'end'"),
        (CHAIN, "a & b -> start", "g:13:14: edges[0]: nothing can lead to 'start'"),
        (CHAIN, "start -> a & b & end", "g:13:5: edges[0]: 'end' stands alone: it cannot be joined with '&'"),
        (CHAIN, "start -> a & -> verdict", "g:13:18: edges[0]: a node is missing: write 'a & b -> c'"),
        (CHAIN, "start a", "g:13:5: edges[0]: 'start a' has no arrow: write 'a & b -> c'"),
        # roles and seats
        ("argues: 1", "argues: 0", "g:6:17: roles.con.argues: seat 0 is taken by role 'pro'"),
        ("argues: 1", "argues: 2", "g:6:17: roles.con.argues: seats count from 0 without a gap, so 2 is too high"),
        ("argues: 1", "argus: 1", "g:6:9: roles.con.argus: 'argus' is not a key here. Did you mean 'argues'?"),
        (
            "judge: {sees: [question, answers]}",
            "judge: {sees: [question, answrs]}",
            "g:7:28: roles.judge.sees[1]: 'answrs' is not a field of this protocol. Did you mean 'answers'?",
        ),
        (
            "judge: {sees: [question, answers]}",
            "judge: {opening: hi}",
            "g:7:11: roles.judge.opening: 'opening' does nothing here: a judge argues nothing and brings its own "
            "instructions",
        ),
        (
            "con: {argues: 1, ",
            "con: {argues: 1, hears: quotes, ",
            "g:6:20: roles.con.hears: only a judge chooses what it hears: remove it, or use 'to' at the nodes",
        ),
        (
            "  judge: {",
            "  idle: {}\n  judge: {",
            "g:7:3: roles.idle: role 'idle' has no node: remove it, or write a node with 'speak: idle'",
        ),
        # nodes
        (B, "  b: {speak: cno}", "g:10:14: nodes.b.speak: 'cno' is not a role of this protocol. Did you mean 'con'?"),
        (
            B,
            "  b: {}",
            "g:10:3: nodes.b: a node says what is done, and by whom: write exactly one of speak, critique, revise, "
            "human, "
            "judge, tool, verify, vote, select, compute, use",
        ),
        (B, f"{B}\n  end: {{speak: con}}", "g:11:3: nodes.end: 'end' is reserved: choose another name"),
        (
            B,
            "  b: {speak: con, to: [jugde]}",
            "g:10:24: nodes.b.to[0]: 'jugde' is not a role of this protocol. Did you mean 'judge'?",
        ),
        (
            B,
            "  b: {speak: con, limit: {words: rounds - 2}}",
            "g:10:34: nodes.b.limit.words: 'rounds - 2' is 0; it must be from 1 to 1,000,000",
        ),
        (
            B,
            "  b: {speak: con, quote: {field: passage, form: hole}}",
            "g:10:49: nodes.b.quote.form: 'hole' is not one of 'tagged', 'whole'",
        ),
        (
            "{judge: judge}",
            "{judge: judge, prompt: hi}",
            "g:11:27: nodes.verdict.prompt: 'prompt' does nothing here: it has no meaning at 'judge'",
        ),
        # non-leakage and templates
        (
            PASSAGE_TOO,
            "sees: [question, answers], opening",
            "g:9:26: nodes.a.quote: role 'pro' cannot quote 'passage', which it does not see: add it to roles.pro.sees",
        ),
        (
            "con: {argues: 1, sees: [question, answers, passage]}",
            "con: {argues: 1, sees: [question, answers], opening: 'See: {{ passage }}'}",
            "g:6:65: roles.con.opening: role 'con' does not see field 'passage': add it to roles.con.sees or do not "
            "show it here",
        ),
        (
            "con: {argues: 1, sees: [question, answers, passage]}",
            "con: {argues: 1, sees: [question], opening: '{{ other }}'}",
            "g:6:51: roles.con.opening: 'other' shows 'answers', which role 'con' does not see: add it to "
            "roles.con.sees or do not show it here",
        ),
        (
            "con: {argues: 1, sees",
            "con: {opening: '{{ answer }}', sees",
            "g:6:22: roles.con.opening: role 'con' argues no answer, so 'answer' is empty: remove it",
        ),
        (
            B,
            "  b:\n    speak: con\n    prompt: |\n      Say\n      it: {{ qestion }}",
            "g:14:14: nodes.b.prompt: 'qestion' is neither a field that role 'con' sees nor a param. "
            "Did you mean 'question'?",
        ),
        (
            "{{ question }}",
            "{{ question | uper }}",
            "g:5:66: roles.pro.opening: 'uper' is not a filter of templates. Did you mean 'upper'?",
        ),
        (
            "rewards:",
            "message: '{{ passage }}'\nrewards:",
            "g:15:14: message: 'passage' is not a name of messages, which may show only role, text, answer, cue, round",
        ),
        # rewards
        (
            "verdict: verdict,",
            "verdict: a,",
            "g:15:20: rewards.verdict: 'a' is not a judge node, nor a vote on answers. There is: verdict.",
        ),
        ("margin / 2", "margn / 2", "g:15:41: rewards.value: 'margn' is not a name here. Did you mean 'margin'?"),
        ("tanh(margin / 2)", "log(-p)", "g:15:36: rewards.value: 'log(-p)' has no value: math domain error"),
        ("tanh(margin / 2)", "\"'won'\"", "g:15:36: rewards.value: ''won'' is 'won', not a number"),
        ("bad_quote: -1", "pay: each", "g:15:59: rewards.pay: 'each' is no way to pay. Did you mean 'each_turn'?"),
        (
            "quote: passage",
            "cue: hi",
            "g:15:54: rewards.bad_quote: no node quotes anything, so this is never paid: remove it",
        ),
        # the file
        ("name: game\n", "", "g:1:1: 'name' is missing"),
        ("rewards:", "name: x\nrewards:", "g:15:1: key 'name' is written twice (first in line 1)"),
        ("rewards:", "rewrads:", "g:15:1: rewrads: 'rewrads' is not a key here. Did you mean 'rewards'?"),
    ],
)
def test_faults_say_where_and_what(old: str, new: str, fault: str) -> None:
    found = faults(old, new)
    assert fault in found, "\n".join(found)


def test_one_mistake_is_told_once() -> None:
    for old, new in [
        ("{rounds: 2}", "{rounds: [2]}"),
        ("argues: 1", "argus: 1"),
        (B, "  b: {speak: cno}"),
        (B, "  b: {speak: con, quote: pasage}"),
        (CHAIN, "start a"),
        ("verdict: verdict,", "verdict: a,"),
        ("{{ question }}", "{{ qestion }}"),
        ("judge: {sees: [question, answers]}", "judge: {sees: [question, answers], argues: 1}"),
    ]:
        assert len(faults(old, new)) == 1, faults(old, new)


def test_all_faults_come_in_one_report() -> None:
    text = (
        "name: bad name\n"
        "fields: [question, answers]\n"
        "roles:\n"
        "  pro: {argues: 0, sees: [answers, qestion]}\n"
        "  judge: {sees: nothing}\n"
        "nodes:\n"
        "  a: {speak: pro, prompt: '{{ secret }}', limit: {words: many}}\n"
        "  v: {judge: judge}\n"
        "edges: [start -> a -> w, a -> v -> end]\n"
    )
    with pytest.raises(SourceError) as caught:
        compile_document(parse_document(text, "g"))
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [
        (1, 7),
        (4, 36),
        (5, 17),
        (7, 31),
        (7, 58),
        (9, 23),
    ]
    assert pickle.loads(pickle.dumps(caught.value)).faults == caught.value.faults


def test_a_message_cannot_carry_a_field_to_a_role_that_does_not_see_it() -> None:
    text = """\
name: secret
fields: [question, hint]
message: "{{ cue }}{{ text }}"
roles:
  knower: {sees: [question, hint]}
  guesser: {sees: [question]}
nodes:
  tell: {speak: knower, cue: "{{ hint }}: "}
  guess: {speak: guesser}
edges: [start -> tell -> guess -> end]
"""
    with pytest.raises(SourceError) as caught:
        compile_document(parse_document(text, "g"))
    assert str(caught.value) == (
        "g:3:14: message: 'cue' shows 'hint' of node 'tell' to role 'guesser', which does not see it: "
        "add it to roles.guesser.sees, or set nodes.tell.to"
    )
    compile_document(parse_document(text.replace('cue: "{{ hint }}: "', 'cue: "{{ hint }}: ", to: []')))
    compile_document(parse_document(text.replace("{{ cue }}{{ text }}", "{{ text }}")))


def test_a_compiled_protocol() -> None:
    protocol = compiled()
    assert protocol.seats == ("pro", "con")
    assert protocol.judge_nodes == ("verdict",)
    assert protocol.required_fields == ("question", "answers", "passage")
    assert protocol.roles["judge"].is_judge
    assert protocol.roles["con"].sees == ("question", "answers", "passage")
    assert protocol.nodes["verdict"].role is protocol.roles["judge"]
    (reward,) = protocol.rewards
    assert (reward.roles, reward.verdict, reward.pay, reward.bad_quote) == (("pro", "con"), "verdict", "end", -1.0)
    assert set(protocol.digraph.edges(keys=False)) >= {("start", "a"), ("a", "verdict"), ("a", "b"), ("verdict", "end")}
    assert protocol.message({"role": "pro", "text": "hi"}) == "pro: hi"


def test_fingerprints_follow_what_matters() -> None:
    base = compiled().fingerprint
    assert compiled("name: game", "# a comment\nname:   game").fingerprint == base
    assert compiled("name: game", "name: game\nsummary: words").fingerprint == base
    assert pickle.loads(pickle.dumps(compiled())).fingerprint == base
    others = [
        compiled("rounds: 2", "rounds: 3"),
        compiled("margin / 2", "margin / 3"),
        compiled(
            "  a: {speak: pro, quote: passage}\n  b: {speak: con}",
            "  b: {speak: con}\n  a: {speak: pro, quote: passage}",
        ),
    ]
    assert len({base, *(other.fingerprint for other in others)}) == 4


def test_params_are_overridden_in_the_type_of_their_default() -> None:
    assert load_protocol("debate", {"rounds": "5"}).params == {"rounds": 5, "words": 80}
    assert load_protocol("debate", {"words": 10}).nodes["pro"].max_words == 10
    with pytest.raises(ConfigError, match="Did you mean 'rounds'"):
        load_protocol("debate", {"round": 5})
    for value in (2.5, "many", True, None, "9" * 400):
        with pytest.raises(ConfigError, match="param 'rounds'"):
            load_protocol("debate", {"rounds": value})
    with pytest.raises(SourceError, match="'rounds - 1' is -1"):
        load_protocol("debate", {"rounds": 0})


def test_pay_and_bad_quote_may_be_params() -> None:
    text = GAME.replace("{rounds: 2}", "{rounds: 2, pay: each_turn, fine: 0.5}")
    text = text.replace("bad_quote: -1", "pay: pay, bad_quote: -fine")
    (reward,) = compiled(text=text).rewards
    assert (reward.pay, reward.bad_quote) == ("each_turn", -0.5)
    (ends,) = compile_document(parse_document(text), {"pay": "end"}).rewards
    assert ends.pay == "end"


def test_tasks_are_checked() -> None:
    protocol = compiled()
    good: dict[str, Any] = {"question": "Q", "answers": ("x", "y"), "passage": ""}
    protocol.check_task(Task("t", good))
    for change, what in [
        ({"passage": None}, "task 't' lacks 'passage', which protocol 'game' needs"),
        ({"answers": ["x"]}, "has 1 answers, but 2 roles"),
        ({"answers": "xy"}, "must be a list of texts"),
        ({"answers": [1, 2]}, "must be a list of texts"),
    ]:
        with pytest.raises(ConfigError, match=what):
            protocol.check_task(Task("t", {**good, **change}))


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (
            "quote: {field: passage, form: whole}",
            "'passage', which protocol 'game' quotes the items of, must be a list of texts",
        ),
        ("draw: {part: passage}", "'passage', which protocol 'game' draws from, must be a list of texts"),
        ("output: {choice: passage}", "'passage', which protocol 'game' chooses from, must be a list of texts"),
    ],
)
def test_fields_of_which_items_are_taken_must_be_lists(node: str, what: str) -> None:
    protocol = compiled("speak: con", f"speak: con, {node}")
    task: dict[str, Any] = {"question": "Q", "answers": ("x", "y"), "passage": ["one", "two"]}
    protocol.check_task(Task("t", task))
    with pytest.raises(ConfigError, match=what):
        protocol.check_task(Task("t", {**task, "passage": "one"}))


def test_the_library_is_sound() -> None:
    names = library()
    assert {"debate", "debate-sequential", "consultancy", "naive", "evidence-debate"} <= set(names)
    for name, summary in names.items():
        protocol = load_protocol(name)
        assert protocol.name == name
        assert summary
        assert protocol.paper or name.startswith("evidence-"), name
        assert load_protocol(name).fingerprint == protocol.fingerprint
        assert pickle.loads(pickle.dumps(protocol)).fingerprint == protocol.fingerprint
    with pytest.raises(UnknownNameError, match="Did you mean 'debate'"):
        load_protocol("debat")


def test_the_evidence_game_reads_the_same_to_both_debaters() -> None:
    protocol = load_protocol("evidence-debate")
    names = {"sides": ("d3", "d8"), "evidence": ["b0=1", "b1=2"], "answer": "d3", "text": "b1=2"}
    openings = [protocol.roles[role].opening for role in protocol.seats]
    for opening in openings:
        assert opening is not None
        assert opening(names) == "claims A d3 B d8 evidence b0=1 b1=2"
    cue = protocol.nodes["one"].cue
    assert cue is not None
    assert f"{cue(names)} {names['text']}" == protocol.message(names) == "d3 b1=2"
    assert protocol.roles["judge"].hears == "quotes"


def test_paths_and_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GAME)
    assert load_protocol(path).name == load_protocol(str(path)).name == "game"
    with pytest.raises(SourceError, match="there is no such file"):
        load_protocol(tmp_path / "other.yaml")
