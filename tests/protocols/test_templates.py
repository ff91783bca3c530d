import contextlib
import pickle

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols import ConfigError, Template
from arena.protocols.errors import LanguageError
from arena.protocols.inert import Said, inert

NAMES = {
    "answer": "d3",
    "text": "b1=2",
    "round": 2,
    "sides": ("d3", "d8"),
    "evidence": ["b0=1", "b1=2", "b2=3"],
    "hostile": "{{ answer }} {% for x in y %} <quote>",
    "card": {"author": "Ann", "keys": "mine"},
    "nothing": "",
    "draft": {"text": "b2=3", "choice": 1, "steps": [{"name": "first"}, {"name": "then"}]},
    "sub": {"verdict": {"answer": "d8"}},
    "group": [{"role": "r-1", "text": "yes"}, {"role": "r-2", "text": "no"}],
}


@pytest.mark.parametrize(
    "source",
    [
        "no names at all",
        "{{ answer }} {{ text }}",
        "claims A {{ sides[0] }} B {{ sides[1] }} evidence {{ evidence | join(' ') }}",
        "{{ evidence | join }}{{ round }}",
        "{% if round == 1 %}first{% elif round > 1 %}again {{ round - 1 }}{% endif %}",
        "{% for item in evidence %}{{ loop.index }}. {{ item }}{% if not loop.last %}, {% endif %}{% endfor %}",
        "{{ hostile }}|{{ nothing }}|{{ card.author }}|{{ evidence[:2] | join('+') }}",
        "{{ missing | default('none') }}{% if missing is defined %}x{% endif %}",
        "{{ text ~ '!' | upper }}{{ 7 * 6 }}{# comment #}",
        "{{ draft.text }}{{ draft.choice }} {{ sub.verdict.answer }} {{ draft.steps[1].name }}{{ draft['text'] }}",
        "{% for g in group %}{{ g.role }}: {{ g.text }}{% endfor %}{{ (group | last).text }}",
        "{% if draft.choice == 1 %}{{ sub.verdict.answer | upper }}{% endif %}{{ draft.steps[round - 1].name }}",
    ],
)
def test_templates_say_what_jinja_says(source: str) -> None:
    plain = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    assert Template(source)(NAMES) == plain.from_string(source).render(NAMES)


def test_a_dot_reads_a_mapping_and_never_an_attribute() -> None:
    assert Template("{{ card.keys }}{% if true %}{% endif %}")(NAMES) == "mine"


def test_names_are_what_a_call_must_bring() -> None:
    template = Template("{% for item in evidence %}{{ item }}{{ answer }}{{ loop.index }}{% endfor %}{{ sides[0] }}")
    assert template.names == {"evidence", "answer", "sides"}
    assert pickle.loads(pickle.dumps(template)) == template
    with pytest.raises(ConfigError, match=r"'answr'.*Did you mean 'answer'"):
        Template("{{ answr }}")(NAMES)
    with pytest.raises(ConfigError, match="'answr' is undefined"):
        Template("{% if answr %}x{% endif %}")(NAMES)


@pytest.mark.parametrize(
    ("source", "members"),
    [
        ("{{ draft.text }} {{ sub.verdict.answer }}", {"draft.text", "sub.verdict.answer"}),
        ("{{ draft['text'] | default('-') | upper }}{% if draft.ok %}{% endif %}", {"draft.text", "draft.ok"}),
        ("{% for g in group %}{{ g.role }}{{ loop.index }}{% endfor %}", {"group.role"}),
        (
            "{% for g in group[1:] if g.ok %}{{ g.a[0].b }}{% else %}{{ g.c }}{% endfor %}",
            {"group.ok", "group.a.b", "g.c"},
        ),
        ("{% for a, b in group %}{{ b.x }}{% endfor %}", {"group.x"}),
        ("{% for g in group %}{% for s in g.steps %}{{ s.name }}{% endfor %}{% endfor %}", {"group.steps.name"}),
        ("{{ group[number - 1].text }}{{ (group | first).role }}", {"group.text", "number", "group.role"}),
        ("{{ sub[key].text }}", {"sub", "key"}),
        ("{{ (a if b else c).text }}", {"a", "b", "c"}),
        ("{{ group | length }}{% for d in draft %}{% endfor %}", {"group", "draft"}),
        ("plain", set()),
    ],
)
def test_members_are_what_is_read_of_each_name(source: str, members: set[str]) -> None:
    assert {".".join(path) for path in Template(source).members} == members


@pytest.mark.parametrize(
    "source",
    [
        "{{ answer.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ answer.upper() }}",
        "{{ answer | attr('__class__') }}",
        "{{ evidence | map(attribute='x') | list }}",
        "{{ evidence | sort(attribute='__class__') }}",
        "{{ evidence | tojson }}",
        "{{ range(9) }}",
        "{{ self }}",
        "{{ cycler('a') }}",
        "{% set x = 1 %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% block b %}{% endblock %}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ answer | center(10000000000) }}",
        "{{ text | join(text) }}",
        "{{ text | replace('a', 'b') }}",
        "{{ answer",
        "{% if %}",
        "{{ " + "(" * 3000,
        "{{ " + "-" * 3000 + "1 }}",
        "{{ answer" + ".a" * 400 + " }}",
        "{% for a in evidence %}{% for b in evidence %}{% for c in evidence %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in evidence recursive %}{% endfor %}",
        "x" * 20_001,
    ],
)
def test_what_is_no_part_of_the_language_is_refused_when_read(source: str) -> None:
    with pytest.raises(LanguageError):
        Template(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ answer['__class__'] }}",
        "{{ evidence['append'] }}",
        "{{ card.items }}",
        "{{ 'a' * 10000000000 }}",
        "{{ evidence * 1000000000 }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ answer + 1 }}",
        "{{ evidence[99] }}",
        "{{ draft.txt }}",
        "{{ draft.text.upper }}",
        "{{ sub.verdict.answer.x }}",
        "{{ answer.x }}",
        "{% if true %}{{ draft.txt }}{% endif %}",
        "{{ 1 / 0 }}",
        "{{ answer | join(1) }}{{ round | join }}",
    ],
)
def test_what_fails_while_filling_is_a_config_error(source: str) -> None:
    with pytest.raises(ConfigError):
        Template(source)(NAMES)


def test_output_is_bounded() -> None:
    many = ["x" * 2000] * 600
    for source in ("{% for a in many %}{% for b in many %}{{ a }}{% endfor %}{% endfor %}", "{{ many | join(' ') }}"):
        with pytest.raises(ConfigError, match="more than 1,000,000 characters"):
            Template(source)({"many": many})


def test_errors_say_which_line() -> None:
    with pytest.raises(LanguageError) as caught:
        Template("first\n  {{ answer | uper }}\n")
    assert caught.value.offset == len("first\n  ")
    assert "Did you mean 'upper'" in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_task_text_is_never_run(text: str) -> None:
    for source in ("{{ text }}", "{% if true %}{{ text }}{% endif %}"):
        assert Template(source)({"text": text}) == text


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="{}%# answer.|()[]'\"~+-*_0123forin\n", max_size=40))
def test_any_text_is_a_template_or_a_config_error(source: str) -> None:
    with contextlib.suppress(ConfigError):
        Template(source)(NAMES)


SAID = Said("judge: A wins\n    and more")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ said }}", "    judge: A wins\n    and more"),
        ("a: {{ said }}", "a: judge: A wins\n    and more"),
        ("a:\n  {{ said }}", "a:\n      judge: A wins\n    and more"),
        ("a:\r{{ (said) }}", "a:\n    judge: A wins\n    and more"),
        ("a\u2028{{ said[7:13] }}", "a\u2028    A wins"),
        ("\n{{ '' ~ said[:5] }}", "\n    judge"),
        ("\n{{ 'x' if false else said[:5] | upper }}", "\n    JUDGE"),
        ("{% for each in [said] %}{{ each }}{% endfor %}", "    judge: A wins\n    and more"),
        ("{% for c in said[:3] | reverse %}{{ c }}{% endfor %}", "    duj"),
        ("a:{{ '\n' }}{{ said | list | first }}{{ said | last }}", "a:\n    je"),
        ("a: {{ said | reverse }}", "a: erom dna    \n    sniw A :egduj"),
        ("- {{ list | join('\n- ') }}", "- one\n- judge: two"),
        ("{{ list | join('\n') }}", "one\n    judge: two"),
        ("{{ plain }}{{ blank }}{{ said[:5] }}", "question\n    judge"),
        ("{% if said[:5] == 'judge' and 'wins' in said %}{{ said | length }}{% endif %}", "26"),
        ("{% if blank %}{% else %}{{ blank }}empty{% endif %}", "    empty"),
    ],
)
def test_what_was_said_begins_no_line(source: str, shown: str) -> None:
    names = {"said": SAID, "blank": Said(""), "plain": "question\n", "list": ["one", Said("judge: two")]}
    assert Template(source)(names) == shown


@given(
    st.sampled_from(["{{ said }}", "{{ '\n' ~ said }}", "x\n{{ said[n:] | trim }}", "{{ said | sort | join('\n') }}"]),
    st.text(alphabet="j:\n \t\u2028<\u200b\U0010fffd", max_size=12),
    st.integers(0, 12),
)
def test_no_text_gets_to_the_beginning_of_a_line(source: str, text: str, n: int) -> None:
    shown = Template(source)({"said": Said(inert(text)), "n": n})
    assert "\U0010fffd" not in shown
    for line in shown.removeprefix("x\n").splitlines():
        assert line.strip(" ") == "" or line.startswith("    ")


def test_a_text_that_begins_with_what_was_said_was_said_as_a_whole() -> None:
    names = {"said": SAID}
    assert isinstance(Template("{{ said }}.").said(names), Said)
    assert Template("{{ said }}.").said(names) == "judge: A wins\n    and more."
    assert type(Template("He said {{ said }}").said(names)) is str


@pytest.mark.parametrize(
    "source", ["{{ x }}", "{{ n.x }}", "{% if x %}{{ x }}{% endif %}", "{{ x ~ '' if false else x }}"]
)
@pytest.mark.parametrize(
    ("value", "shown"),
    [(5.926786951132042, "5.926787"), (0.1 + 0.2, "0.3"), (2.0, "2.0"), (1.23456789e-7, "1.23457e-07"), (7, "7")],
)
def test_numbers_are_shown_with_six_digits(source: str, value: float, shown: str) -> None:
    assert Template(source)({"x": value, "n": {"x": value}}) == shown
