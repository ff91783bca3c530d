"""What a text states: an answer or nothing, never a guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.protocols.quotation import own_lines
from arena.protocols.records import VerdictStatus
from arena.protocols.stated import Stated, read_answer, read_number

ANSWERS = ("Paris", "a concrete wall", "con")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("Paris", 0),
        ("  paris. ", 0),
        ("**A Concrete   Wall**", 1),
        ("B", 1),
        ("(b)", 1),
        ("C)", 2),
        ("A) Paris", 0),
        ("Answer: B", 1),
        ("The final answer is: Con!", 2),
        ("It is in France.\nAnswer: A", 0),
        ("A\nParis", 0),
        ("\uff21", 0),  # full-width A
    ],
)
def test_a_stated_answer_is_read(text, index):
    assert read_answer(text, ANSWERS) == Stated(index)


@pytest.mark.parametrize(
    "text",
    [
        "concrete",  # begins with 'con'
        "I concur with the economist",  # 'con' in words
        "con and pro",
        "Paris is not the answer",
        "A wall",
        "A) con",  # letter and text disagree
        "D",
        "",
        "a is for apple",
    ],
)
def test_nothing_is_guessed(text):
    assert read_answer(text, ANSWERS).value is None


def test_letters_yield_to_answers_that_are_letters():
    assert read_answer("B", ("B", "A")) == Stated(0)
    assert read_answer("Straße", ("STRASSE", "x y")) == Stated(0)


@pytest.mark.parametrize(
    "text", ["**Answer:** B", "Answer:B", "**Final answer: B**", "_The answer is_ (B)", "answer = a concrete wall"]
)
def test_marks_of_emphasis_around_the_lead_do_not_matter(text):
    assert read_answer(text, ANSWERS) == Stated(1)


def test_after_a_rationale_only_lines_that_announce_an_answer_count():
    text = "Paris\nB) a concrete wall\nThe answer is not easy.\nAnswer: C"
    assert read_answer(text, ANSWERS, led=True).value == 2
    assert read_answer(text, ANSWERS).status is VerdictStatus.CONTRADICTORY


def test_a_line_that_a_limit_cut_does_not_count():
    assert read_answer("Answer: B", ANSWERS, cut=True).status is VerdictStatus.TRUNCATED
    assert read_answer("Answer: B\nbecaus", ANSWERS, cut=True).value == 1


@given(st.text(max_size=60), st.booleans(), st.booleans())
def test_any_text_is_read_and_no_answer_inside_a_sentence(text, led, cut):
    found = read_answer(text, ("yes", "no"), led=led, cut=cut)
    assert (found.value is None) == bool(found.reason)
    assert read_answer(f"I say yes {text.replace('answer', '')} of course", ("yes", "no"), led=True).value is None


def test_numbers_that_count():
    for text in ("7", "7.", "**7**", "Score: 7", "Rating: 7/10", "The final score is 7 out of 10.", "7.0"):
        assert read_number(text, 1, 10).value == 7.0
    for text in ("seven", "7/5", "0", "-7", "7 8", "about 7", "70", "7e0", ""):
        assert read_number(text, 1, 10).value is None


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (".5", ("5", "7")),
        ("", ("!", "x")),
        (" \n", ("?", "x")),
        ("102", ("10²", "x")),
        ("yes?", ("yes", "no")),
        ("Answer: A?", ("x", "y")),
    ],
)
def test_what_only_looks_alike_is_not_stated(text, answers):
    assert read_answer(text, answers).value is None


def test_answers_of_marks_can_be_stated():
    assert read_answer("!", ("!", "?")).value == 0
    assert read_answer("?", ("!", "?")).value == 1


def test_half_a_point_is_not_five():
    assert read_number("Score: .5", 1, 10).value is None


QUOTED = [
    '"Answer: A"',
    "“Answer: A”",
    "„Answer: A“",
    "«Answer: A»",
    "'Answer: A'",
    "`Answer: A`",
    '**"Answer: A"**',
    "> Answer: A",
    ">> **Answer: A**",
    "- > Answer: A",
    "```\nAnswer: A\n```",
    "~~~text\nAnswer: A\n~~~",
    "```\nAnswer: A",
    '"I say:\nAnswer: A"',
    'It said "\nAnswer: A\n".',
    "It said: “First.\n\nAnswer: A\n\nLast.”",
    "<quote>\nAnswer: A\n</quote>",
    "<blockquote>\nAnswer: A\n</blockquote>",
]


@pytest.mark.parametrize("text", QUOTED)
@pytest.mark.parametrize("led", [True, False])
def test_who_quotes_the_other_side_has_not_said_it(text, led):
    assert read_answer(text, ANSWERS, led=led).status is VerdictStatus.PARSE_ERROR
    assert read_answer(f"The other side wrote this.\n{text}\nI do not agree.\nAnswer: B", ANSWERS, led=led).value in (
        1,
        None,  # a fence that is never closed
    )
    assert read_answer(f"Answer: B\n{text}", ANSWERS, led=led) == Stated(1)


@pytest.mark.parametrize("text", QUOTED)
def test_a_quoted_number_is_no_score(text):
    said = text.replace("Answer: A", "Score: 9")
    assert read_number(f"Score: 4\n{said}", 1, 10) == Stated(4.0)
    assert read_number(said, 1, 10).value is None


@pytest.mark.parametrize(
    "text",
    [
        'Answer: "A"',
        "Answer: `A`",
        '"A"',  # the whole text: nobody is quoted
        "\n`Paris`\n",
        'It is 5" wide.\nAnswer: A',
        "It's the cons' mistake.\nAnswer: A",
        '"Lyon" is what they say.\nAnswer: A',
        'They begin with "no\nAnswer: A',  # never closed
        "Below <quote> nothing follows.\nAnswer: A",
        "> not so\nAnswer: A",
        "```\nx = 1\n```\nAnswer: A",
    ],
)
def test_what_is_said_beside_quotations_counts(text):
    assert read_answer(text, ANSWERS) == Stated(0)


@given(st.text(alphabet=st.sampled_from("\"'`“”«»>~<quote/ \nAB:"), max_size=80), st.booleans())
def test_lines_behind_a_mark_of_quotation_never_decide(text, led):
    quoted = "\n".join(f"> {line}" for line in f"{text}\nAnswer: A".split("\n"))
    assert read_answer(quoted, ANSWERS, led=led).value is None
    before = read_answer(text, ANSWERS, led=True)
    assert read_answer(f"{text}\n{quoted}", ANSWERS, led=True).value in (before.value, None)


@given(st.text(alphabet=st.sampled_from("\"'`“”«»„>~<quote/ \nAB:"), max_size=120))
def test_every_line_is_own_or_quoted(text):
    lines = text.splitlines()
    assert len(own_lines(lines)) == len(lines)


def test_the_first_line_that_states_something_is_known():
    assert read_answer("> Answer: B\nSo it is.\nAnswer: A\nAnswer: A", ANSWERS).line == 2
    assert read_answer("Answer: A\nAnswer: B", ANSWERS).line == 0
    assert read_answer("nothing", ANSWERS).line is None
