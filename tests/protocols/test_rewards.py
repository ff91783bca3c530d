"""What protocol files may pay: one reward in a sound protocol, and what comes of it."""

import pytest

from arena.protocols import Protocol, Reward, SourceError, parse_document
from arena.protocols.loader import compile_document

TEXT = """\
name: game
params: {words: 5, when: end}
fields: [question, answers, solution]
roles:
  pro: {argues: 0, sees: [question, answers]}
  con: {argues: 1, sees: [question, answers]}
  crowd: {count: 2, sees: [answers]}
  judge: {sees: [question, answers]}
  checker: {check: "exact:field=solution", sees: [solution]}
nodes:
  a: {speak: pro, limit: {words: words}, quote: question}
  b: {speak: con, output: {regex: "(?P<bid>[0-9]+)"}}
  many: {speak: crowd, output: {choice: answers}}
  first: {verify: checker, of: a}
  each: {verify: checker, of: many}
  tally: {vote: many}
  verdict: {judge: judge}
  sums: {compute: {x: 1 if first.passed else -1, y: words}}
edges:
  - start -> a & b -> many -> first & each -> tally -> verdict -> sums -> end
rewards: REWARD
"""


def compiled(reward: str, text: str = TEXT) -> Protocol:
    text = text.replace("REWARD", reward)
    if "pay: when" not in reward:
        text = text.replace(", when: end", "")
    return compile_document(parse_document(text, "g"))


def rewards(reward: str) -> tuple[Reward, ...]:
    return compiled(reward).rewards


def faults(reward: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        compiled(reward)
    return [f"{fault.where}: {fault.what}" for fault in caught.value.faults]


def test_arguing_roles_are_paid_by_a_verdict_unless_said_otherwise() -> None:
    (reward,) = rewards("{verdict: verdict, value: margin}")
    assert (reward.roles, reward.verdict, reward.pay, reward.zero_sum) == (("pro", "con"), "verdict", "end", False)
    assert reward.values["con"]({"margin": 2.0}) == 2.0


def test_several_rewards_add_up() -> None:
    first, second = rewards(
        "[{verdict: verdict, value: won}, {roles: [crowd], value: 1 if each.passed else 0, pay: next}]"
    )
    assert (first.roles, second.roles) == (("pro", "con"), ("crowd-1", "crowd-2"))
    assert [sorted(value.names) for value in second.values.values()] == [["each_1.passed"], ["each_2.passed"]]


def test_a_group_stays_whole_where_several_values_are_wanted() -> None:
    (reward,) = rewards("{roles: [crowd], value: agreement(many.choice)}")
    assert {name for value in reward.values.values() for name in value.names} == {"many.choice"}


def test_roles_may_have_values_of_their_own() -> None:
    (reward,) = rewards("{zero_sum: true, value: {pro: sums.x, con: 0 - sums.x}}")
    assert reward.roles == ("pro", "con")
    assert reward.values["con"]({"sums.x": 1}) == -1


def test_pay_may_be_a_param_and_turns_may_be_paid_one_by_one() -> None:
    assert rewards("{verdict: verdict, value: margin, pay: when}")[0].pay == "end"
    (turn,) = rewards("{roles: [con], value: 'number(bid) if ok else -bad_quotes', pay: turn}")
    assert turn.values["con"].names == {"bid", "ok", "bad_quotes"}


def test_a_vote_on_answers_pays_like_a_judge() -> None:
    assert rewards("{verdict: tally, value: won}")[0].verdict == "tally"


@pytest.mark.parametrize(
    ("reward", "fault"),
    [
        (
            "{verdict: verdct, value: margin}",
            "rewards.verdict: 'verdct' is not a judge node, nor a vote on answers. Did you mean 'verdict'?",
        ),
        (
            "{verdict: first, value: margin}",
            "rewards.verdict: 'first' is not a judge node, nor a vote on answers. There is: tally, verdict.",
        ),
        ("{value: margin}", "rewards: 'margin' is of a verdict: write verdict: NODE"),
        (
            "{verdict: verdict, value: first.score}",
            "rewards.verdict: 'verdict' does nothing: the value uses none of margin, p, won, correct, score",
        ),
        (
            "{roles: [crowd], verdict: verdict, value: margin}",
            "rewards.value: 'margin' is of the answer that the role argues, and role 'crowd' argues none: add "
            "'argues', or use the verdict's own fields, such as verdict.margin",
        ),
        (
            "{verdict: verdict, value: margin * verdict.status}",
            "rewards.value: 'margin * verdict.status' has no value: 'scored' is not a number",
        ),
        ("{verdict: verdict, value: \"'text'\"}", "rewards.value: ''text'' is 'text', not a number"),
        ("{roles: [], value: first.score}", "rewards.roles: an empty list pays nobody: remove it"),
        ("[]", "rewards: an empty list pays nobody: remove it"),
        ("{roles: [checker], value: first.score}", "rewards.roles[0]: role 'checker' is a program and cannot be paid"),
        ("{roles: [pro, pro], value: first.score}", "rewards.roles[1]: role 'pro' is named twice"),
        ("{roles: [pro, con], value: {pro: first.score}}", "rewards.value: role 'con' is paid, but has no value here"),
        (
            "{roles: [pro], value: {pro: first.score, con: 1}}",
            "rewards.value.con: role 'con' is not paid: add it to 'roles'",
        ),
        (
            "{verdict: verdict, value: margin, pay: ech_turn}",
            "rewards.pay: 'ech_turn' is no way to pay. Did you mean 'each_turn'?",
        ),
        (
            "{verdict: tally, value: won, pay: each_turn}",
            "rewards.pay: 'each_turn' asks a judge after every turn: name a judge node as 'verdict'",
        ),
        (
            "{verdict: verdict, value: margin + first.score, pay: each_turn}",
            "rewards.value: 'each_turn' pays the change of a verdict, and 'first.score' is none of its values",
        ),
        (
            "{roles: [pro], value: 1, pay: next}",
            "rewards.pay: 'next' waits for a node that the value names, and it names none",
        ),
        (
            "{roles: [pro], value: 'number(b.bid)', pay: next}",
            "rewards.pay: 'next' never pays 'pro': 'b' cannot run after a turn of its own",
        ),
        (
            "{roles: [con], value: 'number(b.bid) + a.words', pay: next}",
            "rewards.pay: 'next' never pays 'con': 'a' and 'b' cannot run after a turn of its own",
        ),
        (
            "{roles: [crowd], value: 'a.words', pay: next}",
            "rewards.pay: 'next' never pays 'crowd-1': 'a' cannot run after a turn of its own",
        ),
        (
            "{roles: [pro], value: 1, pay: turn}",
            "rewards.pay: the value is the same for every turn: use words, ok or a field of the turn, or another way "
            "to pay",
        ),
        (
            "{verdict: verdict, value: words + margin, pay: turn}",
            "rewards.value: 'words' means both a param and a name of this place: rename the param",
        ),
        (
            "{verdict: verdict, value: ok + margin, pay: turn}",
            "rewards.pay: 'turn' pays what the turn itself is worth, before any verdict: use 'end' or 'each_turn'",
        ),
        (
            "{value: ok, pay: turn, zero_sum: true}",
            "rewards.zero_sum: turns that are paid one by one cannot add up to 0: remove it",
        ),
        (
            "{verdict: verdict, value: won, zero_sum: true}",
            "rewards.zero_sum: the values do not add up to 0: they may be pro 1 + con 0",
        ),
        (
            "{roles: [pro], value: first.score, zero_sum: true}",
            "rewards.zero_sum: one role alone cannot be paid zero-sum",
        ),
        (
            "{roles: [crowd], value: first.score, bad_quote: -1}",
            "rewards.bad_quote: nobody who is paid quotes anything: remove it",
        ),
        (
            "{verdict: verdict, value: margin, bad_quote: answers}",
            "rewards.bad_quote: 'answers' is not a name here. There is: words.",
        ),
        (
            "{verdict: verdict, value: nobody.score + won}",
            "rewards.value: 'nobody' is not a node of this protocol. There is: a, b, each, first, many, sums, tally, "
            "verdict, words.",
        ),
    ],
)
def test_faults(reward: str, fault: str) -> None:
    found = faults(reward)
    assert fault in found, "\n".join(found)


def test_what_pays_next_may_come_later_on_another_branch_or_in_another_round() -> None:
    reward = "{roles: [pro], value: b.words, pay: next}"
    chain = "start -> a & b -> many -> first"
    assert compiled(reward, TEXT.replace(chain, "start -> a & many\n  - many -> b\n  - a & b -> first"))
    looping = TEXT.replace("rewards:", "  - {from: a & b, to: a & b, times: 1}\nrewards:")
    assert compiled(reward, looping)


@pytest.mark.parametrize("value", ["margin", "tanh(margin / 2)", "won - 0.5", "2 * p - 1"])
def test_what_adds_up_to_zero_may_say_so(value: str) -> None:
    assert rewards(f"{{verdict: verdict, value: {value}, zero_sum: true}}")[0].zero_sum


def test_values_that_may_depend_on_each_other_are_left_to_the_episodes() -> None:
    assert rewards("{zero_sum: true, value: {pro: sums.x, con: sums.y}}")[0].zero_sum
