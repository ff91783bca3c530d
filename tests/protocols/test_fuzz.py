"""10,000 files that nobody would write: each is a protocol or a list of faults, and never anything else.

Most are files of the library with keys, values and characters changed at random; the others are built to hurt a
reader of YAML: deep nesting, aliases that multiply, huge numbers, odd characters, wrong types.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

import arena.protocols
from arena.protocols import ConfigError, SourceError, parse_document
from arena.protocols.compiler.sources import LIBRARY
from arena.protocols.loader import compile_document

FILES = 10_000
SLOWEST = 2.0  # seconds of CPU: a second, and as much again for a machine that does other things
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(LIBRARY.glob("*.yaml"))]
TREES = [yaml.safe_load(text) for text in TEXTS]
WORDS = [
    *(
        "speak",
        "judge",
        "critique",
        "revise",
        "of",
        "vote",
        "select",
        "compute",
        "use",
        "tool",
        "verify",
        "roles",
        "fields",
    ),
    *(
        "nodes",
        "edges",
        "from",
        "to",
        "times",
        "when",
        "count",
        "argues",
        "sees",
        "output",
        "choice",
        "json",
        "call",
        "claims",
    ),
    *(
        "answers",
        "question",
        "passage",
        "proponent",
        "opponent",
        "verdict",
        "pro",
        "con",
        "start",
        "end",
        "debate",
        "a.b",
        "a-1",
    ),
    *(
        "{{ x }}",
        "{{ answers[0] }}",
        "{% for a in pro %}{{ a.text }}{% endfor %}",
        "{{ pro.text }}",
        "{% if",
        "rounds - 1",
    ),
    *(
        "start -> pro -> end",
        "a & b | c -> d",
        "->",
        "pro -> pro",
        "1 / 0",
        "9 ** 9 ** 9",
        "pro.text",
        "(((",
        "lambda: 0",
    ),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        64,
        65,
        0.5,
        1e300,
        float("inf"),
        float("nan"),
        10**30,
        "",
        " ",
        "yes",
        "~",
        "\u202e",
    ),
    *(
        [],
        {},
        [[]],
        [{}],
        {"": ""},
        {"a": {"b": {"c": 1}}},
        [None],
        "x" * 3000,
        "é" * 10,
        "\U0001f600",
        "a\nb",
        "#",
        "&a",
        "*a",
    ),
]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """All containers of a tree with their keys."""
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                todo.append(node[key])
    return found


def changed_tree(random: Random) -> str:
    tree = copy.deepcopy(random.choice(TREES))
    for _ in range(random.choice([1, 1, 2, 5])):
        inside = places(tree)
        if not inside:
            break
        node, key = random.choice(inside)
        change = random.randrange(6)
        if change == 0:
            del node[key]
        elif change == 1:
            node[key] = random.choice(VALUES)
        elif change == 2:
            node[key] = random.choice(WORDS)
        elif change == 3 and isinstance(node, dict):
            node[random.choice(WORDS)] = node.pop(key)
        elif change == 4:
            other, name = random.choice(inside)
            if key in (node if isinstance(node, dict) else range(len(node))) and name in (
                other if isinstance(other, dict) else range(len(other))
            ):
                node[key] = copy.deepcopy(other[name])
        elif isinstance(node[key], str):
            node[key] = changed_text(random, node[key])
    return str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def changed_text(random: Random, text: str) -> str:
    for _ in range(random.choice([1, 1, 3, 20])):
        at = random.randrange(len(text) + 1)
        change = random.randrange(4)
        if change == 0:
            text = text[:at] + text[at + random.randint(1, 30) :]
        elif change == 1:
            text = text[:at] + random.choice("{}[]:,&*#|>-!%@`'\"\\ \n\t\x00\x07\u2028\ufeff()<=?") + text[at:]
        elif change == 2:
            text = text[:at] + random.choice(WORDS) + text[at:]
        else:
            end = at + random.randint(1, 60)
            text = text[:end] + text[at:end] + text[end:]
    return text


def library_text(random: Random) -> str:
    return changed_text(random, random.choice(TEXTS))


def deep(random: Random) -> str:
    depth = random.choice([50, 99, 100, 101, 5000, 100_000])
    opening, closing = random.choice([("[", "]"), ("{a: ", "}"), ("- ", "")])
    key = random.choice(["edges", "nodes", "params", "roles", "x"])
    return f"name: x\n{key}: " + opening * depth + closing * depth


def bomb(random: Random) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * random.randint(2, 9))}]" for n in range(1, random.randint(2, 30))
    ]
    return "\n".join(lines) + f"\nnodes: *a{len(lines) - 1}\n"


def huge(random: Random) -> str:
    number = random.choice(
        ["9" * 300, "9" * 5000, "1e999", "-1e999", "0x" + "f" * 200, "." + "9" * 400, "1" + "0" * 308 + ".5"]
    )
    place = random.choice(
        [
            "params: {rounds: %s}",
            "params: {words: %s}",
            "nodes: {pro: {limit: {words: %s}}}",
            "roles: {judge: {count: %s}}",
        ]
    )
    return f"extends: debate\nname: x\n{place % number}\n"


def expression(random: Random) -> str:
    parts = [
        random.choice([*WORDS, "**", "+", "(", ")", "1", "9" * 50, "rounds", "not", "in", ".", "if", "else"])
        for _ in range(20)
    ]
    text = random.choice(["(" * 300 + "1" + ")" * 300, "-" * 400 + "1", " ".join(parts), "rounds" + " + rounds" * 60])
    edges = f"  - start -> pro & con -> verdict -> end\n  - {{from: pro & con, to: pro & con, times: {text!r}}}\n"
    return f"extends: debate\nname: x\nedges:\n{edges}"


def template(random: Random) -> str:
    pieces = [
        "{{",
        "}}",
        "{%",
        "%}",
        "for a in pro",
        "endfor",
        "if",
        "else",
        "endif",
        "answer",
        "|",
        "join",
        "(",
        "'",
        "[0]",
        ".",
        "{#",
    ]
    text = random.choice(
        ["{% if a %}" * 500, "{{ " + "(" * 500, "{{ a" + "[0]" * 500 + " }}", "".join(random.choices(pieces, k=30))]
    )
    return yaml.safe_dump({"extends": "debate", "name": "x", "nodes": {"pro": {"prompt": text}}})


def recursion(random: Random) -> str:
    uses = "\n".join(
        f"  u{n}: {{use: debate-tree, with: {{depth: {random.randint(0, 9)}}}}}" for n in range(random.randint(1, 12))
    )
    chain = " -> ".join(f"u{n}" for n in range(uses.count("use:")))
    return (
        "name: x\nfields: [question, answers, passage]\nroles:\n  proponent: {argues: 0, sees: [question, answers, "
        "passage]}\n"
        "  opponent: {argues: 1, sees: [question, answers, passage]}\n  judge: {sees: [question, answers]}\n"
        f"nodes:\n{uses}\nedges: [start -> {chain} -> end]\n"
    )


def fan(random: Random) -> str:
    """Many nodes, joined in many ways."""
    count = random.choice([5, 30, 120])
    names = [f"n{n}" for n in range(count)]
    edges = [
        " & ".join(random.sample(names, random.randint(1, 4))) + " -> " + " & ".join(random.sample(names, 2))
        for _ in names
    ]
    guarded = [f"{{from: {random.choice(names)}, to: {random.choice(names)}, times: 2}}" for _ in range(10)]
    roles = "".join(f"  {name}: {{}}\n" for name in names)
    nodes = "".join(f"  {name}: {{speak: {name}}}\n" for name in names)
    lines = "".join(f"  - {edge}\n" for edge in [f"start -> {names[0]}", *edges, *guarded, f"{names[-1]} -> end"])
    return f"name: x\nroles:\n{roles}nodes:\n{nodes}edges:\n{lines}"


def noise(random: Random) -> str:
    return "".join(random.choices("ab:-{}[]&*!|>'\"#%@\n \t\x00\x1b\ud800\U0001f600", k=random.randint(0, 200)))


MAKERS: list[tuple[Callable[[Random], str], int]] = [
    *((changed_tree, 50), (library_text, 20), (deep, 3), (bomb, 4), (huge, 4), (expression, 6), (template, 6)),
    *((recursion, 1), (fan, 2), (noise, 4)),
]


def files(count: int) -> Iterator[tuple[int, str, str]]:
    for seed in range(count):
        random = Random(seed)
        make = random.choices([maker for maker, _ in MAKERS], [weight for _, weight in MAKERS])[0]
        yield seed, make.__name__, make(random)


def outcome(text: str) -> Exception | str:
    """What is wrong with a file, or that nothing is."""
    try:
        compile_document(parse_document(text, "f.yaml"))
    except SourceError as error:
        return error if all(fault.what and fault.file for fault in error.faults) else "a fault that says nothing"
    except Exception as error:
        return error
    return "sound"


def test_any_file_is_a_protocol_or_a_list_of_faults(capsys: pytest.CaptureFixture[str]) -> None:
    begun, sound, slowest = time.process_time(), 0, (0.0, "")
    for seed, maker, text in files(FILES):
        before = time.process_time()
        found = outcome(text)
        assert not isinstance(found, BaseException) or isinstance(found, SourceError | ConfigError), (
            seed,
            maker,
            found,
        )
        assert str(found), (seed, maker)
        sound += found == "sound"
        slowest = max(slowest, (time.process_time() - before, f"{maker}, seed {seed}"))
    spent = time.process_time() - begun
    with capsys.disabled():
        print(f"\n{FILES / spent:,.0f} files a second, {sound} of them sound; the slowest took {slowest[0]:.2f} s")
    assert slowest[0] < SLOWEST, slowest
    assert 50 < sound < FILES / 2


def test_files_on_disk_that_name_each_other_have_an_end(tmp_path: Path) -> None:
    for name in ("a", "b"):
        other = "ab".replace(name, "")
        text = TEXTS[0].replace("nodes:", f"nodes:\n  more: {{use: {other}.yaml}}\n", 1)
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(SourceError):
        arena.protocols.load_protocol(tmp_path / "a.yaml")
