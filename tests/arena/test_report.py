import math
from html.parser import HTMLParser

import pytest

from arena.charts import Series
from arena.protocols.errors import StoreError
from arena.protocols.records import Episode, Quote, Task, Turn, TurnStatus, Verdict, VerdictStatus
from arena.ratings import Match, cross_play, elo_table
from arena.report import Arm, Curve, Link, ReportData, Section, Table, render_report, transcript_of, write_report
from arena.statistics import Interval

HOSTILE = (
    "<script>alert(1)</script>\"><img src=x onerror='alert(2)'></title></style></textarea><!-- {{ 7 * 7 }} {% raw %} "
    "\u202egnirts\u202c nul\x00 esc\x1b[31m lone\ud800 zero\u200bwidth &amp; http://example.com/x.png"
)
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """Reads a page as a browser would: elements, attributes, and the text inside."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.open, self.crossed = [], [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())


def debate(text=None, title="", verdict=None):
    task = Task(
        "facts/1", {"question": text or "Who gained more?", "answers": [text or "ann", "bob"], "ev": ["ann+7"]}, 1
    )
    turns = [
        Turn(0, 0, "speak", text or "first", 0, text or "v5", 0, text or "ann+7", quotes=(Quote("ann+7", True),)),
        Turn(1, 1, "speak", "second", 0, "v5", 1, "bob+9", TurnStatus.OVER_LIMIT, (Quote("bob+9", False),)),
        Turn(2, 2, "speak", "first", 1, "v5", 0, "ann+7", quotes=(Quote("ann+7", True, True),), audience=("judge",)),
    ]
    verdict = verdict or Verdict(VerdictStatus.SCORED, "lm#1", (math.log(0.25), math.log(0.75)))
    episode = Episode("k", "debate", task.id, {}, (0, 1), turns, {"judge": verdict}, error=text)
    return transcript_of(task, episode, title, ["ev", "absent"])


def full(text=None):
    def say(usual):
        return text or usual

    names = [say("debater@v0"), "debater@v1"]
    matches = [Match(names[i % 2], names[1 - i % 2], float(i % 3 > 0), f"t{i}") for i in range(40)]
    unread = Verdict(VerdictStatus.PARSE_ERROR, say("lm#1"), evidence={"reason": say("no answer line")})
    section = Section(
        say("Facts"),
        say("A lead."),
        say("evidence-debate"),
        '<svg xmlns="http://www.w3.org/2000/svg"><rect width="3" height="3"/></svg>',
        {say("policy"): say("84k"), "list": ["a", "b"], "nested": {"deep": [1, say("x")]}},
        [
            Arm(say("debate"), Interval(0.838, 0.81, 0.86, 1200), 1193, {"parse_error": 7, "tie": 0, say("other"): 1}),
            Arm("nothing", None, 0, {"transport": 5}),
        ],
        elo_table(matches, anchor="debater@v1"),
        "debater@v1",
        cross_play(matches),
        [
            Curve(
                say("KL"),
                [Series(say("kl"), [0, 1], [0, 0.8]), Series("other", [0, 1], [1, 2])],
                reference=(0.8, say("t")),
            )
        ],
        [Table(say("Bad"), [say("gen"), "share"], [[say("zero"), 0.2], ["five", None]], say("note"))],
        [debate(text, say("")), debate(text, verdict=unread)],
        [say("A note.")],
    )
    return ReportData(
        say("Title"), say("Lead."), say("2026-01-31"), {say("seed"): 0}, {say("a"): say("b")}, [section] * 2
    )


def test_the_page_is_whole_and_needs_nothing():
    for page in (render_report(full()), render_report(ReportData("empty"))):
        read = Page(page)
        assert read.open == read.crossed == []
        assert not {"script", "link", "iframe", "object", "embed", "form", "base", "img"} & set(read.tags)
        assert all(value and value.startswith("#") for _, name, value in read.attributes if name in ("href", "src"))
        assert "url(" not in page
        assert "@import" not in page
        assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page


def test_hostile_text_is_inert_and_shown():
    page = render_report(full(HOSTILE))
    page.encode("utf-8")
    kind, hostile = Page(render_report(full())), Page(page)
    assert set(hostile.tags) - set(kind.tags) <= {"span"}  # hidden characters are marked by one
    assert hostile.open == hostile.crossed == []
    assert not [name for _, name, _ in hostile.attributes if name.startswith("on")]
    assert {name for _, name, _ in hostile.attributes} <= {name for _, name, _ in kind.attributes} | {"transform"}
    assert "<script>alert(1)</script>" in hostile.words
    assert "{{ 7 * 7 }}" in hostile.words
    assert "U+202Egnirts" in hostile.words
    assert "escU+001B[31m loneU+D800" in hostile.words
    for hidden in "\u202e\u202c\x00\x1b\u200b":
        assert hidden not in page


def test_what_a_reader_looks_for_is_there():
    words = Page(render_report(full())).words
    assert "debate 83.8 81.0 – 86.0 1193 parse error 7, other 1" in words
    assert "nothing – – 0 transport 5" in words
    assert "bob right" in words  # the right answer is marked
    assert "ann 25.0 %" in words
    assert "bob 75.0 %" in words
    assert "not in the source: bob+9" in words
    assert "repeated: ann+7" in words
    assert "heard by judge" in words
    assert "over limit" in words
    assert "no answer line" in words
    assert "ev ann+7" in words


def test_what_became_of_a_turn_stands_beside_it():
    task = Task("t", {"question": "q", "answers": ["a", "b"]})
    turns = [
        Turn(0, 0, "n", "r", 0, "a", 0, "?", TurnStatus.PARSE_ERROR, kept=False, audience=()),
        Turn(1, 0, "n", "r", 0, "a", 0, "yes", fields={"choice": "<b>", "deep": {"n": [2 / 3, None]}}, thinking="hm"),
        Turn(2, 1, "n", "r", 1, "a", 0, "no", kept=False, sample=1, audience=()),
        Turn(3, 2, "n", "r", 3, "a", 0, "last", replaces=1),
    ]
    tie = Verdict(VerdictStatus.TIE, "j", (math.log(0.5),) * 2)
    episode = Episode("k", "p", "t", {}, (0, 1), turns, stop="consensus", inner_verdicts={"sub.verdict": tie})
    page = Page(render_report(ReportData("t", sections=[Section("s", transcripts=[transcript_of(task, episode)])])))
    assert page.open == page.crossed == []
    assert "parse errortried again" in page.words
    assert "hidden thinkinghmyes" in page.words
    assert 'choice = "<b>", deep = {"n": [0.6667, null]}' in page.words
    assert "not picked" in page.words
    assert "replaces turn 1" in page.words
    assert "r for a at n, visit 4, step 2 · a" in page.words
    assert "sub.verdict j, on answers of its own: 50.0 %, 50.0 %" in page.words
    assert "stopped: consensus" in page.words


def test_quotes_are_marked_inside_their_text():
    task = Task("t", {"question": "q", "answers": ["a", "b"]})
    said = 'He said "x<y" twice: x<y and then x<y+1.'
    turn = Turn(0, 0, "n", "r", 0, "a", 0, said, quotes=(Quote("x<y", True), Quote("x<y+1", False)))
    shown = transcript_of(task, Episode("k", "p", "t", {}, (0, 1), [turn]))
    page = render_report(ReportData("t", sections=[Section("s", transcripts=[shown])]))
    good = '<mark class="good" title="verified">x&lt;y</mark>'
    bad = '<mark class="bad" title="not in the source">x&lt;y+1</mark>'
    assert f"He said &#34;{good}&#34; twice: {good} and then {bad}." in page


def test_same_data_same_page():
    assert render_report(full()) == render_report(full())


def test_a_runaway_text_is_cut():
    page = render_report(ReportData("t", "word " * 100_000))
    assert "480000 more characters" in page
    assert len(page) < 60_000


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("no_kl-seed1/report.html", "no_kl-seed1/report.html"),
        ("../a b/report.html", "../a%20b/report.html"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("//example.com/x", "/example.com/x"),
        ('"><img src=x>', "%22%3E%3Cimg%20src%3Dx%3E"),
    ],
)
def test_a_cell_may_lead_to_another_file_and_nowhere_else(file, place):
    table = Table("runs", ["page"], [[Link("<b>it</b>", file)]])
    read = Page(render_report(ReportData("x", sections=[Section("s", tables=[table])])))
    assert [value for tag, name, value in read.attributes if (tag, name) == ("a", "href")] == [place]
    assert "<b>it</b>" in read.words
    assert not {"b", "img"} & set(read.tags)


def test_the_file_is_written_whole(tmp_path):
    path = write_report(tmp_path / "deep" / "report.html", full())
    assert path.read_text(encoding="utf-8") == render_report(full())
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written: File exists"):
        write_report(tmp_path / "file" / "report.html", ReportData("t"))
