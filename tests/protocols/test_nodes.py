"""What each kind of node may say, and what is refused: one mistake in a sound protocol, and its line."""

import pytest

from arena.protocols import Protocol, SourceError, parse_document
from arena.protocols.loader import compile_document

TEXT = """\
name: game
params: {rounds: 2}
lists: {moods: [calm, loud]}
fields: [question, answers, passage, secret]
roles:
  pro: {argues: 0, sees: [question, answers, passage]}
  con: {argues: 1, sees: [question, answers, passage]}
  crowd: {count: 3, sees: [question, answers]}
  judge: {sees: [question, answers]}
  tester: {check: "exact:field=secret", sees: [secret]}
  toolbox: {tools: [calculator]}
nodes:
  draft: {speak: pro, prompt: "Be {{ mood }}.", draw: {mood: moods}}
  attack: {critique: con, of: draft, prompt: "{{ of.text }}"}
  better: {revise: pro, of: draft}
  call: {speak: con, output: {call: [calculator]}, retries: 1}
  run: {tool: toolbox, of: call}
  check: {verify: tester, of: better}
  choice: {speak: crowd, output: {choice: answers}}
  tally: {vote: choice}
  best: {select: [draft, better], by: judge, value: p}
  sums: {compute: {ratio: rounds / 2, agreed: agreement(choice.choice) == 1}, say: "{{ ratio }}"}
  verdict: {judge: judge}
edges:
  - start -> draft -> attack -> better -> call -> run -> check -> choice -> tally -> best -> sums -> verdict -> end
rewards: {roles: [pro, con], value: check.score}
"""


def compiled(*changes: tuple[str, str]) -> Protocol:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return compile_document(parse_document(text, "g"))


def faults(*changes: tuple[str, str]) -> list[str]:
    with pytest.raises(SourceError) as caught:
        compiled(*changes)
    return [f"{fault.line}: {fault.where}: {fault.what}" for fault in caught.value.faults]


DRAFT = 'draft: {speak: pro, prompt: "Be {{ mood }}.", draw: {mood: moods}}'


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        # keys that do nothing
        (
            DRAFT,
            DRAFT[:-1] + ", of: attack}",
            "13: nodes.draft.of: 'of' does nothing here: it has no meaning at 'speak'",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", retries: 1}",
            "13: nodes.draft.retries: 'retries' does nothing without 'output': any text can be read",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", limit: {over: cut}}",
            "13: nodes.draft.limit: a limit has at least one of 'words', 'tokens' and 'thinking'",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", say: hi}",
            "13: nodes.draft.say: 'say' does nothing here: it has no meaning at 'speak'",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", reads: call}",
            "13: nodes.draft.reads: 'reads' does nothing here: it has no meaning at 'speak'",
        ),
        (
            "of: call}",
            "of: call, quote: passage}",
            "17: nodes.run.quote: 'quote' does nothing here: it has no meaning at 'tool'",
        ),
        (
            "{vote: choice}",
            "{vote: choice, value: 1}",
            "20: nodes.tally.value: 'value' does nothing here: it has no meaning at 'vote'",
        ),
        (
            'say: "{{ ratio }}"}',
            "to: [pro]}",
            "22: nodes.sums.to: 'to' does nothing here: a computation without 'say' is read by nobody",
        ),
        (
            "{speak: crowd, output: {choice: answers}}",
            "{speak: crowd, output: {choice: answers, optional: true}}",
            "19: nodes.choice.output.optional: 'optional' needs a 'tag': without one the whole text is read",
        ),
        # kinds
        (
            DRAFT,
            "draft: {speak: pro, human: pro}",
            "13: nodes.draft: a node is one of 'speak' and 'human': write exactly one of speak, critique, revise, "
            "human, judge, tool, verify, vote, select, compute, use",
        ),
        (
            "attack: {critique: con, of: draft, ",
            "attack: {critique: con, ",
            "14: nodes.attack: a node with 'critique' is about another: write 'of: NODE'",
        ),
        (
            "tool: toolbox",
            "tool: tester",
            "17: nodes.run.tool: role 'tester' must be a toolbox: give it 'tools: [...]'",
        ),
        ("verify: tester", "verify: pro", "18: nodes.check.verify: role 'pro' must be a checker: give it 'check: ...'"),
        (
            "revise: pro",
            "revise: toolbox",
            "15: nodes.better.revise: role 'toolbox' is a program and can neither speak nor judge: use another role",
        ),
        # what it is about
        (
            "of: better",
            "of: beter",
            "18: nodes.check.of: 'beter' is not a node of this protocol. Did you mean 'better'?",
        ),
        ("of: better", "of: check", "18: nodes.check.of: 'check' cannot be about itself"),
        ("of: better", "of: verdict", "18: nodes.check.of: 'verdict' judges and says nothing: name a node with turns"),
        ("of: better", "of: draft", None),
        (
            "revise: pro, of: draft",
            "revise: pro, of: [draft, attack]",
            "15: nodes.better.of: 'revise' is about one node; these are 2",
        ),
        ("of: call", "of: best", "17: nodes.run.of: 'best' can only run later, so there is nothing to be about"),
        ("{vote: choice}", "{vote: [choice, choice]}", "20: nodes.tally.vote[1]: 'choice' is named twice"),
        (
            "{vote: choice}",
            "{vote: draft}",
            "20: nodes.tally.vote: 'draft' gives no 'choice' to count. There is: bad_quotes, mood, ok, status, text, "
            "visits, words.",
        ),
        (
            "{vote: choice}",
            "{vote: choice, count: indx}",
            "20: nodes.tally.count: 'choice' gives no 'indx' to count. Did you mean 'index'?",
        ),
        ("{vote: choice}", "{vote: choice, rule: mean}", None),
        (
            "{vote: choice}",
            "{vote: choice, rule: mean, count: status}",
            "20: nodes.tally.rule: 'mean' is for numbers and verdicts, and 'status' is a text",
        ),
        # rating
        (
            "by: judge, value: p",
            "by: judge, value: words",
            "21: nodes.best.by: 'by' does nothing: the value uses none of margin, p, won, score",
        ),
        ("by: judge, value: p", "value: p", "21: nodes.best.value: 'p' is given by a judge: name one with 'by'"),
        (
            "by: judge, value: p",
            "by: tester, value: p",
            "21: nodes.best.value: 'p' is given by a judge: name one with 'by'",
        ),
        ("by: judge, value: p", "by: judge", "21: nodes.best: a selection needs 'value': what is largest for the best"),
        (
            "by: judge, value: p",
            "by: toolbox, value: p",
            "21: nodes.best.by: role 'toolbox' is a toolbox and rates nothing: name a judge or a checker",
        ),
        ("[draft, better], by", "draft, by", "21: nodes.best.select: there is only one turn to pick from"),
        (
            DRAFT,
            DRAFT[:-1] + ", best_of: {n: 1, value: words}}",
            "13: nodes.draft.best_of.n: '1' is 1; it must be from 2 to 64",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", best_of: {n: 2, value: 3}}",
            "13: nodes.draft.best_of.value: the value is the same for all, so the first would always be taken",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", best_of: {n: 2, value: wrds}}",
            "13: nodes.draft.best_of.value: 'wrds' is not a name here. Did you mean 'words'?",
        ),
        # outputs, draws, claims
        (
            "{choice: answers}",
            "{choice: anwers}",
            "19: nodes.choice.output.choice: 'anwers' is not a field of this protocol. Did you mean 'answers'? For "
            "fixed texts, write a list",
        ),
        (
            "{choice: answers}",
            "{choice: passage}",
            "19: nodes.choice.output.choice: role 'crowd' cannot choose from 'passage', which it does not see: add "
            "it to roles.crowd.sees",
        ),
        (
            "{choice: answers}",
            "{choice: [a]}",
            "19: nodes.choice.output.choice: 'choice' needs two texts or more, all different and none empty",
        ),
        (
            "{choice: answers}",
            "{choice: [a, b], regex: a}",
            "19: nodes.choice.output: an output has exactly one of 'choice', 'regex', 'json' and 'call'",
        ),
        (
            "{choice: answers}",
            "{choice: answers, tag: Quote}",
            "19: nodes.choice.output.tag: <Quote> has a meaning of its own: choose another tag",
        ),
        (
            "draw: {mood: moods}",
            "draw: {mood: mods}",
            "13: nodes.draft.draw.mood: 'mods' is neither a list nor a field of this protocol. Did you mean 'moods'?",
        ),
        (
            "draw: {mood: moods}",
            "draw: {mood: secret}",
            "13: nodes.draft.draw.mood: role 'pro' cannot draw from 'secret', which it does not see: add it to "
            "roles.pro.sees",
        ),
        (
            "draw: {mood: moods}",
            "draw: {mood: moods, rounds: moods}",
            "13: nodes.draft.draw.rounds: 'rounds' hides the param of that name: choose another name",
        ),
        (
            "{speak: crowd, output: {choice: answers}}",
            "{speak: crowd, claims: true, output: {choice: answers}}",
            "19: nodes.choice.claims: role 'crowd' argues nothing that it could claim: add 'argues'",
        ),
        (
            DRAFT,
            DRAFT[:-1] + ", claims: true}",
            "13: nodes.draft.claims: a claim is read from 'output: {choice: answers}'",
        ),
        # computations
        ("ratio: rounds / 2", "ratio: \"'a' if rounds else 2 * 'b'\"", None),
        (
            "ratio: rounds / 2",
            "ratio: rounds / 0",
            "22: nodes.sums.compute.ratio: 'rounds / 0' has no value: division by zero",
        ),
        (
            "ratio: rounds / 2",
            "ratio: choice.choice",
            "22: nodes.sums.compute.ratio: 'choice.choice' is the values of several nodes: write "
            "agreement(choice.choice), count(choice.choice, ...), any(...), all(...), mean(...), or name one of them",
        ),
        (
            "ratio: rounds / 2",
            "ratio: verdict.p",
            "22: nodes.sums.compute.ratio: 'verdict.p' is always none here: its node can only run later",
        ),
        (
            "ratio: rounds / 2",
            "ratio: check.scre",
            "22: nodes.sums.compute.ratio: 'check' gives no 'scre'. Did you mean 'score'?",
        ),
        (
            "ratio: rounds / 2",
            "text: rounds / 2",
            "22: nodes.sums.compute.text: 'text' has a meaning of its own: choose another name",
        ),
        (
            'say: "{{ ratio }}"',
            'say: "{{ rato }}"',
            "22: nodes.sums.say: 'rato' is not a field of this node, which may show only its own. Did you mean "
            "'ratio'?",
        ),
        # names
        ("tally:", "question:", "20: nodes.question: 'question' is already the name of a field: rename the node"),
        (
            "tally:",
            "choice-2:",
            "20: nodes.choice-2: node 'choice-2' and node 'choice' are both 'choice_2' in expressions: rename one",
        ),
        (
            "  tally: {vote: choice}",
            "  tally: {vote: choice}\n  round: {speak: pro}",
            "21: nodes.round: 'round' is already the name of a name of templates: rename the node",
        ),
        # roles
        ("{count: 3,", "{count: 65,", "8: roles.crowd.count: '65' is 65; it must be from 1 to 64"),
        (
            "{tools: [calculator]}",
            "{tools: [calculator], opening: hi}",
            "11: roles.toolbox.opening: 'opening' does nothing here: the role is a program",
        ),
        (
            "{tools: [calculator]}",
            "{tools: [calculatr]}",
            "11: roles.toolbox.tools[0]: 'calculatr' is not a known tool. Did you mean 'calculator'?",
        ),
        (
            "{tools: [calculator]}",
            "{tools: [calculator, calculator]}",
            "11: roles.toolbox.tools[1]: tool 'calculator' is listed twice: a call could mean either",
        ),
        (
            "lists: {moods: [calm, loud]}",
            "lists: {moods: [calm, loud], more: [a]}",
            "3: lists.more: no node draws from list 'more', and no template shows it: remove it",
        ),
        (
            "lists: {moods: [calm, loud]}",
            "lists: {moods: []}",
            "3: lists.moods: list 'moods' is empty: nothing can be drawn from it",
        ),
        (
            "params: {rounds: 2}",
            "params: {rounds: 2}\nbudget: {turns: 0}",
            "3: budget.turns: '0' is 0; it must be from 1 to 1,000,000,000",
        ),
        (
            "params: {rounds: 2}",
            "params: {rounds: 2}\nbudget: {}",
            "3: budget: a budget has at least one of 'turns', 'tokens' and 'seconds'",
        ),
    ],
)
def test_faults_say_where_and_what(old: str, new: str, fault: str | None) -> None:
    if fault is None:
        compiled((old, new))
    else:
        found = faults((old, new))
        assert fault in found, "\n".join(found)


@pytest.mark.parametrize(
    ("when", "fault"),
    [
        (
            "verdict.choice == 0",
            "'verdict.choice' is a text and '0' a number, which are never equal (the place of a choice, "
            "from 0, is verdict.index)",
        ),
        ("say.words == 'ten'", "'ten' is a text and 'say.words' a number, which are never equal"),
        ("say.text = 'ten'", "'say.text = 'ten'' is not an expression: write == to compare"),
        ("verdict.choice == 'yes' and verdict.index == 0 and say.ok == true", ""),
        ("median((1, verdict.p, 3)) > 1", ""),
    ],
)
def test_texts_and_numbers_are_never_equal(when: str, fault: str) -> None:
    text = f"""\
name: x
fields: [question, answers]
roles: {{a: {{sees: [question]}}, judge: {{sees: [question, answers]}}}}
nodes:
  say: {{speak: a}}
  verdict: {{judge: judge}}
edges:
  - start -> say -> verdict -> end
  - {{from: verdict, to: say, times: 1, when: "{when}"}}
"""
    try:
        compile_document(parse_document(text, "g"))
        found = []
    except SourceError as error:
        found = [each.what for each in error.faults]
    assert found == ([fault] if fault else [])


def test_names_and_numbers_that_mean_lists_and_mappings_are_told() -> None:
    text = """\
name: x
fields: [question]
roles: {a: {sees: [question]}, box: {tools: [calculator]}}
nodes:
  say: {speak: a, limit: 40}
  v: {vote: say & more}
edges: [start -> say -> v -> end]
"""
    with pytest.raises(SourceError) as caught:
        compile_document(parse_document(text, "g"))
    assert [each.what for each in caught.value.faults] == [
        "40 is not a mapping (key: value): write {words: 40}",
        "'say & more' is not a name: use letters, digits and _ (several names are a list: [say, more])",
    ]
    text = text.replace(", limit: 40", "").replace("  v: {vote: say & more}\n", "").replace("-> v ", "")
    with pytest.raises(SourceError, match="remove it, or write a node with 'tool: box'"):
        compile_document(parse_document(text, "g"))
