"""Non-leakage, tried on random protocols: whoever is asked never holds a text that the role may not know.

A protocol is drawn at random: roles that see different fields, nodes of many kinds for different readers, templates
that name anything there is. Those that compile are played on a task whose every field is a unique secret, by agents
whose every turn is one, too. What a seat may know is worked out here from the YAML alone, without the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena.agents.types import Act, Ask
from arena.engine import Engine, Plan
from arena.judges.types import JudgeView
from arena.protocols import Protocol, SourceError, Task, Verdict, VerdictStatus, parse_document
from arena.protocols.compiler.build import build
from arena.protocols.compiler.sources import Sources
from arena.protocols.programs import CHECKS, TOOLS, Call, Outcome

SECRET = re.compile(r"(?:FIELD|SAID|THOUGHT)x[0-9A-Za-z]+?x")
FIELDS = ("question", "answers", "alpha", "beta", "items")
TASK = Task(
    "t",
    {
        "question": "FIELDxquestionx",
        "answers": ("FIELDxanswers0x", "FIELDxanswers1x"),
        "alpha": "FIELDxalphax",
        "beta": "FIELDxbetax",
        "items": ["FIELDxitems0x", "FIELDxitems1x"],
    },
)


@TOOLS.register("leaky", summary="says again what was said")
class Leaky:
    name, description, slow = "leaky", "says again what was said", False

    def __init__(self) -> None:
        self.parameters = {"type": "object"}

    def run(self, calls: Sequence[Call]) -> list[Outcome]:
        return [Outcome(f"{call.text} {dict(call.arguments)}") for call in calls]


@CHECKS.register("blab", summary="says again what was said")
class Blab:
    name, slow = "blab", False

    def check(self, calls: Sequence[Call]) -> list[Outcome]:
        told = [f"{call.text} {call.task.get('made')}" for call in calls]
        return [Outcome(text, fields={"passed": True, "score": 1.0}) for text in told]


# -- drawing protocols


@dataclass
class Drawn:
    """A protocol as YAML data, and what its author means by it."""

    main: dict[str, Any]
    inner: dict[str, Any] | None = None
    readers: dict[str, set[str] | None] = field(default_factory=dict)
    """Node -> seats that read it beside its speaker; None: all."""

    def compile(self) -> Protocol:
        texts = {"<text>\ninner.yaml": ("inner.yaml", yaml.safe_dump(self.inner, sort_keys=False))}
        return build(parse_document(yaml.safe_dump(self.main, sort_keys=False)), {}, Sources(texts))


class Author:
    """Draws a protocol."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def sees(self, role: dict[str, Any], name: str) -> bool:
        """Mostly whether the role sees a field; a mistake now and then."""
        return name in role["sees"] or self.random.random() < 0.1

    def some(self, items: Sequence[str], most: int = 9) -> list[str]:
        return [item for item in items if self.random.random() < 0.6][:most]

    def protocol(self) -> Drawn:
        speakers = ["ann", "bob", "cid"][: self.random.randint(2, 3)]
        roles: dict[str, Any] = {name: {"sees": self.some(FIELDS)} for name in speakers}
        roles["judge"] = {"sees": ["answers", *self.some(("question", "alpha"))]}
        roles["box"] = {"tools": ["leaky"]}
        roles["tester"] = {"check": "blab"}
        if self.random.random() < 0.4:
            roles["ann"]["argues"], roles["bob"]["argues"] = 0, 1
        if self.random.random() < 0.4 and "argues" not in roles[speakers[-1]]:
            roles[speakers[-1]]["count"] = 2
        drawn = Drawn({"name": "drawn", "fields": list(FIELDS), "roles": roles, "nodes": {}, "edges": []})
        for number in range(self.random.randint(3, 6)):
            self.node(drawn, f"n{number}", speakers, roles)
        for name in speakers:
            if self.random.random() < 0.4:
                roles[name]["opening"] = self.template(drawn, roles[name], [])
        if self.random.random() < 0.4:
            drawn.main["message"] = self.random.choice(["{{ role }} {{ cue }} {{ text }}", "{{ answer }}: {{ text }}"])
        nodes = list(drawn.main["nodes"])
        drawn.main["edges"] = [" -> ".join(["start", *nodes, "end"])]
        if self.random.random() < 0.4:
            drawn.main["edges"].append({"from": nodes[-1], "to": self.random.choice(nodes), "times": 1})
        self.leave_out(drawn)
        return drawn

    def leave_out(self, drawn: Drawn) -> None:
        """What nobody uses would be a fault."""
        roles = drawn.main["roles"]
        acting = {"judge", "speak", "critique", "revise", "tool", "verify"}
        used = {node[kind] for node in drawn.main["nodes"].values() for kind in acting & node.keys()}
        used |= {role for node in drawn.main["nodes"].values() for role in node.get("roles", {}).values()}
        for name in roles.keys() - used:
            del roles[name]
        for node in drawn.main["nodes"].values():
            if isinstance(node.get("to"), list):
                node["to"] = [name for name in node["to"] if name in roles]
        if "ann" not in roles or "bob" not in roles:
            for role in roles.values():
                role.pop("argues", None)
        seen = {name for role in roles.values() for name in role.get("sees", ())}
        drawn.main["fields"] = [name for name in FIELDS if name in seen or name in str(drawn.main["nodes"])]

    def node(self, drawn: Drawn, name: str, speakers: list[str], roles: dict[str, Any]) -> None:
        nodes = drawn.main["nodes"]
        turns = [key for key, node in nodes.items() if not {"judge", "compute", "use"} & node.keys()]
        calls = [key for key in turns if "call" in nodes[key].get("output", {})]
        kinds = ["speak"] * 5 + ["judge", "compute"] + ["critique", "revise", "vote", "verify"] * bool(turns)
        kinds += ["select"] * (len(turns) > 1)
        kinds += ["tool"] * (3 * bool(calls)) + ["run"] * (2 * bool(turns)) + ["use"] * (2 * (drawn.inner is None))
        kind, role = self.random.choice(kinds), self.random.choice(speakers)
        node: dict[str, Any] = {kind: role}
        if kind in ("critique", "revise", "verify"):
            node["of"] = self.random.choice(turns)
        if kind == "judge":
            node = {"judge": "judge"}
        elif kind == "tool":
            node = {"tool": "box", "of": self.random.choice(calls)}
            if self.random.random() < 0.5:
                node["say"] = self.random.choice(["{{ text }}", "{{ tool }}", "Done."])
        elif kind == "run":
            what = self.template(drawn, {"sees": []}, list(nodes))
            node = {"tool": "box", "run": "leaky", "arguments": {"what": what}}
        elif kind == "verify":
            node["verify"] = "tester"
            if self.random.random() < 0.5:
                node["fields"] = {"made": self.template(drawn, {"sees": []}, list(nodes))}
        elif kind == "compute":
            node = {"compute": {"length": f"1 if {self.random.choice(['alpha', 'beta'])} == 'a' else 2"}}
        elif kind == "select":
            node = {"select": self.random.sample(turns, k=2), "value": "words"}
        elif kind == "vote":
            node = {"vote": self.random.choice(turns), "count": "text"}
        elif kind == "use":
            node = self.use(drawn, name, speakers, roles)
        else:
            self.speech(drawn, node, roles[role], list(nodes))
        if kind not in ("judge", "compute", "use"):
            self.audience(drawn, name, node, kind, speakers)
        nodes[name] = node

    def speech(self, drawn: Drawn, node: dict[str, Any], role: dict[str, Any], before: list[str]) -> None:
        if self.random.random() < 0.3 and self.sees(role, "items"):
            node["draw"] = {"drop": "items"}
        shown = [*before, *(["of"] if "of" in node else []), *(["drop"] if "draw" in node else [])]
        node["prompt"] = self.template(drawn, role, shown)
        if self.random.random() < 0.3:
            node["cue"] = self.template(drawn, role, shown)
        if self.random.random() < 0.3:
            node["output"] = {"call": ["leaky"], "optional": True}
        elif self.random.random() < 0.3:
            free = self.sees(role, "answers") and self.random.random() < 0.7
            node["output"] = {"choice": "answers" if free else ["left", "right"], "tag": "pick"}
            node["retries"] = self.random.randint(0, 1)
        if self.random.random() < 0.2:
            node["best_of"] = {"n": 2, "value": "words"}

    def audience(self, drawn: Drawn, name: str, node: dict[str, Any], kind: str, speakers: list[str]) -> None:
        to = self.random.choice(
            [None, None, None, None, "nobody", "list"] + ["self"] * (kind in ("speak", "critique", "revise"))
        )
        if to == "list":
            to = self.some([*speakers, "judge"]) or ["judge"]
        if to is not None:
            node["to"] = to
        drawn.readers[name] = None if to is None else set(to) if isinstance(to, list) else set()

    def template(self, drawn: Drawn, role: dict[str, Any], names: list[str]) -> str:
        """Shows some of what there is; most of it is what the role sees, so that many protocols are sound."""
        shown = []
        for _ in range(self.random.randint(0, 2)):
            if self.random.random() < 0.5:
                pool = role["sees"] if self.random.random() < 0.95 else FIELDS
                shown += [f"{{{{ {name} }}}}" for name in self.random.choices(pool, k=1)] if pool else []
            elif names:
                shown.append(self.name(drawn, self.random.choice(names)))
            elif "argues" in role:
                shown.append(self.random.choice(["{{ answer }}", "{{ other }}", "{{ sides[1] }}"]))
        return "Say: " + " ".join(shown)

    def name(self, drawn: Drawn, name: str) -> str:
        node = drawn.main["nodes"].get(name, {})
        if name == "drop":
            return "{{ drop }}"
        if "use" in node:
            return f"{{{{ {name}.i{self.random.randint(0, 1)}.text }}}}"
        if "judge" in node:
            return f"{{{{ {name}.{self.random.choice(['p', 'choice', 'winner'])} }}}}"
        if "compute" in node:
            return f"{{{{ {name}.length }}}}"
        part = self.random.choice(["text", "text", "words", "drop", "choice"])
        plain = f"{{{{ {name}.{part} }}}}"
        return self.random.choice([plain, plain, f"{{% for each in {name} %}}{{{{ each.{part} }}}}{{% endfor %}}"])

    def use(self, drawn: Drawn, name: str, speakers: list[str], roles: dict[str, Any]) -> dict[str, Any]:
        """A nested protocol of two nodes, and the node that uses it."""
        players = {part: self.random.choice(speakers) for part in ("x", "y")}
        inner_roles = {
            part: {"sees": [name for name in self.some(("question", "alpha")) if self.sees(roles[player], name)]}
            for part, player in players.items()
        }
        drawn.inner = {
            "name": "inner",
            "fields": ["question?", "alpha?"],
            "roles": inner_roles,
            "nodes": {
                "i0": {"speak": "x", "prompt": self.template(drawn, inner_roles["x"], [])},
                "i1": {"speak": "y", "prompt": self.random.choice(["{{ i0.text }}", "{{ question }}", "Go on."])},
            },
            "edges": ["start -> i0 -> i1 -> end"],
        }
        to = self.random.choice([None, ["y"], "self"])
        if to is not None:
            drawn.inner["nodes"]["i0"]["to"] = to
        node: dict[str, Any] = {"use": "inner.yaml", "roles": players}
        own = set(players.values())
        drawn.readers[f"{name}.i0"] = None if to is None else {players["y"]} if to == ["y"] else set()
        drawn.readers[f"{name}.i1"] = None
        if self.random.random() < 0.3:
            node["to"] = self.some(speakers)
            for part in ("i0", "i1"):
                if drawn.readers[f"{name}.{part}"] is None:
                    drawn.readers[f"{name}.{part}"] = own | set(node["to"])
        if self.random.random() < 0.7 and "alpha" in str(inner_roles):
            before = [key for key in drawn.main["nodes"] if "use" not in drawn.main["nodes"][key]]
            node["fields"] = {"alpha": self.template(drawn, roles[players["x"]], before)}
        return node


# -- who may know what


class Watch:
    """Checks every ask and every view."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.heard: list[tuple[str, str, set[str]]] = []
        """Node, speaker, and the secrets in each turn that was said."""
        self.leaks: list[str] = []

    def may_know(self, seat: str) -> set[str]:
        role = self.drawn.main["roles"][seat.partition("-")[0]]
        known = {text for name in role["sees"] for text in SECRET.findall(str(TASK.fields[name]))}
        if "argues" in role:
            known.add(TASK.answers[role["argues"] + max(int(seat.partition("-")[2] or 1) - 1, 0)])
        for node, speaker, secrets in self.heard:
            if speaker == seat or self.reads(seat, node):
                known |= secrets
        return known

    def reads(self, seat: str, node: str) -> bool:
        name = node.partition("-")[0] if "." not in node else re.sub(r"-\d+", "", node)
        readers = self.drawn.readers[name]
        return readers is None or seat.partition("-")[0] in readers or seat in readers

    def check(self, seat: str, what: Any, where: str) -> None:
        for secret in set(SECRET.findall(repr(what))) - self.may_know(seat):
            self.leaks.append(f"{seat} knows {secret} at {where}")


class Gossip:
    """Says a new secret in every turn, and thinks another."""

    def __init__(self, watch: Watch) -> None:
        self.name = "gossip"
        self.watch = watch
        self.said = 0

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        return [self.one(ask) for ask in asks]

    def one(self, ask: Ask) -> Act:
        self.watch.check(ask.role, (ask.new, ask.task, ask.heard, ask.options, ask.answer), f"{ask.node}")
        self.said += 1
        text = f"SAIDx{self.said}x"
        if ask.output and ask.output.kind == "call" and self.said % 3:
            text += ' <call>{"tool": "leaky", "arguments": {}}</call>'
        elif ask.output and ask.output.kind == "choice" and self.said % 4:
            text += f" <pick>{ask.options[self.said % len(ask.options)]}</pick>"
        own = {*SECRET.findall(text), f"THOUGHTx{self.said}x"}
        # Everything that is said may hold an answer that was chosen; readers know it from the speaker.
        self.watch.heard.append((ask.node, ask.role, set(SECRET.findall(text))))
        self.watch.heard.append(("nobody", ask.role, own))
        return Act(text, thinking=f"THOUGHTx{self.said}x")


class Fair:
    name, sees_label = "fair", False

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        for view in views:
            self.watch.check("judge", (view.question, view.answers, view.statements, view.fields), "a verdict")
        return [Verdict(VerdictStatus.SCORED, self.name, (-0.1, -2.35)) for _ in views]


def play(drawn: Drawn, protocol: Protocol) -> list[str]:
    watch = Watch(drawn)
    for name, node in protocol.nodes.items():
        if node.kind in ("judge", "compute"):
            drawn.readers.setdefault(re.sub(r"-\d+", "", name), set())
    drawn.readers["nobody"] = set()
    agent = Gossip(watch)
    engine = Engine(protocol, dict.fromkeys(protocol.judging_seats, Fair(watch)), seed=1)
    (episode,) = engine.play([Plan("e", TASK, dict.fromkeys(protocol.speakers, agent))])
    assert episode.error is None, episode.error
    return watch.leaks


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_nobody_is_ever_told_what_the_role_may_not_know(seed: int) -> None:
    drawn = Author(Random(seed)).protocol()
    try:
        protocol = drawn.compile()
    except SourceError:
        return
    assert play(drawn, protocol) == [], yaml.safe_dump(drawn.main, sort_keys=False)


def test_many_of_the_drawn_protocols_are_played() -> None:
    """The property above says something only if protocols of all kinds pass the compiler."""
    kinds: set[str] = set()
    played = 0
    for seed in range(150):
        try:
            protocol = Author(Random(seed)).protocol().compile()
        except SourceError:
            continue
        played += 1
        kinds |= {str(node.kind) for node in protocol.nodes.values()}
        kinds |= {"nested"} if len(protocol.scopes) > 1 else set()
        kinds |= {"counted"} if any(node.group != node.name for node in protocol.nodes.values()) else set()
    assert played >= 30
    assert kinds >= {
        "speak",
        "critique",
        "revise",
        "judge",
        "tool",
        "verify",
        "vote",
        "select",
        "compute",
        "nested",
        "counted",
    }


def hidden_names(drawn: Drawn, name: str) -> list[str]:
    """What a node's role may not be shown: fields that it does not see, and earlier turns that it does not read."""
    nodes, roles = drawn.main["nodes"], drawn.main["roles"]
    role = next(nodes[name][kind] for kind in ("speak", "critique", "revise") if kind in nodes[name])
    found = [f"{{{{ {other} }}}}" for other in drawn.main["fields"] if other not in roles[role]["sees"]]
    for before in list(nodes)[: list(nodes).index(name)]:
        readers, node = drawn.readers.get(before, set()), nodes[before]
        own = role in node.values() and node.get("to") != "nobody"
        if readers is not None and role not in readers and not own and not {"judge", "compute", "use"} & node.keys():
            counted = any(
                roles[value].get("count") for value in node.values() if isinstance(value, str) and value in roles
            )
            several = counted or ("of" in node and "tool" in node)
            found += [] if several else [f"{{{{ {before}.text }}}}"]
    return found


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_a_template_that_names_something_hidden_is_refused(seed: int) -> None:
    random = Random(seed)
    drawn = Author(random).protocol()
    try:
        drawn.compile()
    except SourceError:
        return
    nodes = drawn.main["nodes"]
    for name in [name for name, node in nodes.items() if {"speak", "critique", "revise"} & node.keys()]:
        kept = nodes[name]["prompt"]
        for shown in hidden_names(drawn, name):
            nodes[name]["prompt"] = f"{kept} {shown}"
            with pytest.raises(SourceError, match=f"nodes.{name}.prompt"):
                drawn.compile()
        nodes[name]["prompt"] = kept


# -- by hand: each way in which a field or a turn could get to a reader

SECRETIVE = """\
name: secretive
fields: [question, answers, hint, items]
roles:
  knower: {sees: [question, answers, hint, items]}
  guesser: {sees: [question]}
  judge: {sees: [question, answers]}
  checker: {check: blab}
nodes:
  tell: {speak: knower, prompt: "{{ hint }}"}
  guess: {speak: guesser}
  verdict: {judge: judge}
  last: {speak: guesser}
edges: [start -> tell -> guess -> verdict -> last -> end]
"""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            "last: {speak: guesser}",
            'last: {speak: guesser, prompt: "{{ hint }}"}',
            "role 'guesser' does not see field 'hint'",
        ),
        (
            "last: {speak: guesser}",
            'last: {speak: guesser, cue: "{{ hint }}"}',
            "role 'guesser' does not see field 'hint'",
        ),
        (
            "guesser: {sees: [question]}",
            'guesser: {sees: [question], opening: "{{ hint }}"}',
            "does not see field 'hint'",
        ),
        ("last: {speak: guesser}", 'last: {speak: guesser, prompt: "{{ verdict.choice }}"}', "it shows 'answers'"),
        ("last: {speak: guesser}", 'last: {speak: guesser, prompt: "{{ sides }}"}', "'sides' shows 'answers'"),
        ("last: {speak: guesser}", "last: {speak: guesser, quote: hint}", "cannot quote 'hint'"),
        ("last: {speak: guesser}", "last: {speak: guesser, draw: {x: items}}", "cannot draw from 'items'"),
        ("last: {speak: guesser}", "last: {speak: guesser, output: {choice: items}}", "cannot choose from 'items'"),
        (
            'prompt: "{{ hint }}"}\n  guess: {speak: guesser}',
            'draw: {item: items}}\n  guess: {speak: guesser, prompt: "{{ tell.item }}"}',
            "it was drawn from 'items', which 'guesser' does not see",
        ),
        (
            'prompt: "{{ hint }}"}\n  guess: {speak: guesser}',
            'draw: {item: items}}\n  guess: {critique: guesser, of: tell, prompt: "{{ of.item }}"}',
            "it was drawn from 'items', which 'guesser' does not see",
        ),
        (
            'prompt: "{{ hint }}"}\n  guess: {speak: guesser}',
            'to: self}\n  guess: {speak: guesser, prompt: "{{ tell.text }}"}',
            "'guesser' does not read its turns",
        ),
        (
            'prompt: "{{ hint }}"}\n  guess: {speak: guesser}',
            "to: nobody}\n  guess: {critique: guesser, of: tell}",
            "role 'guesser' does not read 'tell'",
        ),
        (
            'prompt: "{{ hint }}"}\n  guess: {speak: guesser}',
            'to: self}\n  guess: {verify: checker, of: tell, say: "{{ text }}"}\n  more: {speak: guesser}',
            "the result would show 'tell' to role 'guesser', which does not read it",
        ),
        (
            "  guess: {speak: guesser}",
            '  guess: {compute: {value: hint}, say: "{{ value }}"}',
            "it may be the value of 'hint', which 'guesser' does not see",
        ),
        (
            "  guess: {speak: guesser}",
            '  guess: {compute: {value: number(hint) + 1}}\n  more: {compute: {again: guess.value * 2}, say: "{{ '
            'again }}"}',
            "it may be the value of 'guess.value': it may be the value of 'hint'",
        ),
        (
            "  last: {speak: guesser}",
            '  last: {speak: guesser, prompt: "{{ sums.value }}"}\n  sums: {compute: {value: hint if true else 0}}',
            "it may be the value of 'hint'",
        ),
    ],
)
def test_every_way_to_a_reader_is_watched(old: str, new: str, what: str) -> None:
    assert old in SECRETIVE
    text = SECRETIVE.replace(old, new, 1)
    if "more:" in new:
        text = text.replace("-> guess ->", "-> guess -> more ->")
    if "sums:" in new:
        text = text.replace("-> guess ->", "-> sums -> guess ->")
    if "checker, of" not in new:
        text = text.replace("  checker: {check: blab}\n", "")
    with pytest.raises(SourceError) as caught:
        build(parse_document(text, "g"), {}, Sources())
    assert what in str(caught.value)


def test_what_is_only_compared_may_be_shown() -> None:
    """A card that nobody else sees decides who wins, and the outcome is told."""
    text = SECRETIVE.replace(
        "  guess: {speak: guesser}", "  guess: {compute: {won: hint == 'K', by: 2 if hint == 'K' else 1}}"
    )
    text = text.replace("  checker: {check: blab}\n", "")
    text = text.replace("last: {speak: guesser}", 'last: {speak: guesser, prompt: "{{ guess.won }} by {{ guess.by }}"}')
    assert build(parse_document(text), {}, Sources()).nodes["last"].prompt


OPEN = """\
name: open
fields: [question, answers, hint]
roles:
  ann: {sees: [question, answers, hint]}
  bob: {sees: [question]}
  judge: {sees: [question, answers]}
nodes:
  draft: {speak: ann}
  again: {revise: ann, of: draft, to: self}
  note: NOTE
  verdict: {judge: judge}
edges: [start -> draft -> again -> note -> verdict -> end]
"""


def fault_of(text: str) -> str:
    with pytest.raises(SourceError) as caught:
        build(parse_document(text, "g"), {}, Sources())
    return str(caught.value)


@pytest.mark.parametrize(
    "note",
    [
        "{critique: bob, of: draft}",
        '{speak: bob, prompt: "{{ draft.text }}"}',
        '{critique: ann, of: draft, cue: "{{ of.text }} "}\nmessage: "{{ cue }}: {{ text }}"',
        "{select: [draft, again], value: words, to: [bob]}\n  last: {speak: bob}",
        "{verify: checker, of: draft}\n  last: {speak: bob}",
    ],
)
def test_a_private_revision_of_a_public_turn_stays_private(note: str) -> None:
    note, _, message = note.partition("\nmessage: ")
    text = OPEN.replace("NOTE", note) + (f"message: {message}\n" if message else "")
    if "checker" in note:
        text = text.replace("  judge: {", "  checker: {check: blab}\n  judge: {", 1)
    if "last:" in note:
        text = text.replace("-> note ->", "-> note -> last ->")
    elif "bob" not in note:
        text = text.replace("-> note ->", "-> note -> last ->").replace(
            "  verdict:", "  last: {speak: bob}\n  verdict:", 1
        )
    assert "again" in fault_of(text) or "'of' of node" in fault_of(text)


def test_a_revision_that_can_only_come_later_does_not_count() -> None:
    text = OPEN.replace("NOTE", "{critique: bob, of: draft}").replace(
        "draft -> again -> note", "draft -> note -> again"
    )
    assert build(parse_document(text), {}, Sources())


NUMBER = "{json: {type: object, properties: {n: {type: number}}, required: [n]}}"
PRIVATE = """\
name: private
fields: [question, answers, hint]
roles:
  ann: {sees: [question, answers, hint]}
  bob: {sees: [question]}
  judge: {sees: [question, answers]}
nodes:
  one: {speak: ann, to: self, output: OUTPUT}
  two: {speak: ann, to: self, output: OUTPUT}
  sum: SUM
  last: {speak: bob}
  verdict: {judge: judge}
edges: [start -> one -> two -> sum -> last -> verdict -> end]
"""


@pytest.mark.parametrize(
    ("output", "node", "what"),
    [
        ("{choice: [x, y]}", "{vote: [one, two]}", ""),
        ("{choice: answers}", "{vote: [one, two]}", "it shows 'answers', which 'bob' does not see"),
        ("{choice: answers}", '{vote: [one, two], say: "{{ choice }}"}', "it shows 'answers'"),
        ("{choice: answers}", '{vote: [one, two], say: "{{ text }}"}', "it shows 'answers'"),
        ("{choice: answers}", '{vote: [one, two], say: "{{ votes }} votes"}', ""),
        ("{choice: answers}", "{vote: [one, two], to: [judge]}", ""),
        ("{choice: hint}", "{vote: [one, two]}", "it shows an item of 'hint', which 'bob' does not see"),
        ("{choice: [x, y]}", "{vote: [one, two], count: text}", "it is the 'text' of 'one': 'bob' does not read"),
        (NUMBER, "{vote: [one, two], count: n, rule: mean}", "it is the 'n' of 'one': 'bob' does not read its turns"),
        (NUMBER, "{select: [one, two], value: n}", "it would show 'one' to role 'bob', which does not read it"),
        (NUMBER, "{select: [one, two], value: n, to: self}", "a program has no mind"),
    ],
)
def test_a_result_is_told_to_those_who_may_know_it(output: str, node: str, what: str) -> None:
    text = PRIVATE.replace("OUTPUT", output).replace("SUM", node)
    if what:
        assert what in fault_of(text)
    else:
        assert build(parse_document(text), {}, Sources())


def test_who_hears_only_quotes_may_not_speak() -> None:
    text = OPEN.replace("NOTE", "{speak: judge}").replace("answers]}\nnodes", "answers], hears: quotes}\nnodes")
    assert "it cannot hear quotes only" in fault_of(text)


def test_a_nested_judge_hears_what_the_judge_hears_that_plays_it() -> None:
    inner = """\
name: inner
fields: [question, answers]
roles: {x: {sees: [question]}, judge: {sees: [question, answers]}}
nodes: {s: {speak: x}, v: {judge: judge}}
edges: [start -> s -> v -> end]
"""
    outer = OPEN.replace("NOTE", "{use: inner.yaml, roles: {x: bob}}").replace(
        "answers]}\nnodes", "answers], hears: quotes}\nnodes"
    )
    sources = Sources({"g\ninner.yaml": ("inner.yaml", inner)})
    with pytest.raises(SourceError, match=r"of 'inner.yaml' hears turns, but 'judge', which plays it, hears quotes"):
        build(parse_document(outer, "g"), {}, sources)
