"""Chains of sums: ``( 1 2 3 + 4 5 6 ) * 7 8 9``, three digits a number, every result modulo 1000.

Numbers are written digit by digit, so that a small model can copy them. A chain begins with two neighbours and takes
in one more number a step, from the left or from the right: with three operands it is ``( a o b ) o c`` or
``a o ( b o c )``. Who plans it names what is reckoned next: ``P12 +`` is the sum of the first two operands, ``PR3 *``
the product of the last result and the third, ``P1R -`` the first minus the last result, and ``ANS`` says that the
result is the answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena.agents.sampling import uniforms
from arena.agents.scripted import ScriptedAgent
from arena.agents.tools.column import OPERATIONS, spelled
from arena.agents.types import Ask
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["ANSWER", "RESULT", "chains", "demonstrator", "moves_of", "solve", "steps_of"]

ANSWER = "ANS"
"""The move that ends a chain."""
RESULT = "R"
"""Stands for the last result where a move is written out."""
_NOTHING = "?"


def chains(*, seed: int = 0, train: int = 20_000, test: int = 1000, operands: int = 3, digits: int = 3) -> TaskSet:
    """Fresh chains from ``seed``, none twice.

    Fields: ``question``, ``moves`` (what can be planned), ``calls`` (each move as the words of a call, `RESULT` in
    place of the last result) and ``solution``.

    Args:
        seed: of all draws.
        train: count of training tasks.
        test: count of held-out tasks.
        operands: numbers in a chain, 3 to 9: it takes one call fewer.
        digits: of each number, 1 to 9.

    Raises:
        ConfigError: a count out of range.
    """
    check_counts(train=train, test=test)
    if not 3 <= operands <= 9 or not 1 <= digits <= 9:
        raise ConfigError(f"operands={operands} of chains must be from 3 to 9, digits={digits} from 1 to 9")
    rng = random.Random(f"chains {seed} {operands} {digits}")
    seen: set[str] = set()
    made = [_task(f"chain-{seed}-{number}", rng, operands, digits, seen) for number in range(test + train)]
    name = f"chains:seed={seed},train={train},test={test},operands={operands},digits={digits}"
    return TaskSet(name, made[test:], made[:test])  # test first: it stays the same whatever the training size


def _task(key: str, rng: random.Random, operands: int, digits: int, seen: set[str]) -> Task:
    question = ""
    while not question or question in seen:
        numbers = [rng.randrange(10**digits) for _ in range(operands)]
        question, solution = _chain(rng, numbers, digits)
    seen.add(question)
    words = [spelled(number, digits) for number in numbers]
    moves = moves_of(operands)
    fields = {
        "question": question,
        "moves": tuple(moves),
        "calls": tuple(_call(move, words) for move in moves),
        "solution": spelled(solution, digits),
    }
    return Task(key, fields)


def _chain(rng: random.Random, numbers: Sequence[int], digits: int) -> tuple[str, int]:
    """A chain over all numbers, and its value."""
    left = right = rng.randrange(len(numbers) - 1)
    text, value = spelled(numbers[left], digits), numbers[left]
    while right - left + 1 < len(numbers):
        after = right + 1 < len(numbers) and (left in (0, right) or rng.random() < 0.5)
        sign, place = rng.choice("+-*"), right + 1 if after else left - 1
        other, inner = spelled(numbers[place], digits), text if left == right else f"( {text} )"
        text = f"{inner} {sign} {other}" if after else f"{other} {sign} {inner}"
        first, second = (value, numbers[place]) if after else (numbers[place], value)
        value = OPERATIONS[sign](first, second) % 10**digits
        left, right = min(left, place), max(right, place)
    return text, value


def moves_of(operands: int) -> list[str]:
    """What can be planned over so many operands: every pair with every sign, and `ANSWER` at the end."""
    pairs = [f"P{place}{place + 1}" for place in range(1, operands)]
    pairs += [f"P{RESULT}{place}" for place in range(3, operands + 1)]
    pairs += [f"P{place}{RESULT}" for place in range(1, operands - 1)]
    return [*(f"{pair} {sign}" for pair in pairs for sign in OPERATIONS), ANSWER]


def _call(move: str, operands: Sequence[str]) -> tuple[str, ...]:
    """The words of the call that a move asks for: an operand as a whole, `RESULT` or a sign."""
    if move == ANSWER:
        return (RESULT,)
    pair, sign = move.split()
    first, second = (RESULT if each == RESULT else operands[int(each) - 1] for each in pair[1:])
    return first, sign, second


def steps_of(question: str) -> tuple[list[str], list[str]]:
    """The right moves for a question, without the `ANSWER` at the end, and its operands.

    Raises:
        ConfigError: it is no chain.
    """
    items: list[str] = []
    """Brackets, signs and whole numbers."""
    for word in question.split():
        if word.isdecimal() and items and items[-1][-1].isdecimal():
            items[-1] += f" {word}"
        else:
            items.append(word)
    operands = [item for item in items if item[0].isdecimal()]
    names, number = [], 0
    for item in items:
        number += item[0].isdecimal()
        names.append(str(number) if item[0].isdecimal() else item)
    moves: list[str] = []
    while len(names) > 1:
        start = max((place for place, name in enumerate(names) if name == "("), default=-1)
        inner = names[start + 1 : start + 4]
        if len(inner) < 3 or inner[1] not in OPERATIONS:
            raise ConfigError(f"'{question[:80]}' is no chain of sums")
        moves.append(f"P{inner[0]}{inner[2]} {inner[1]}")
        names[max(start, 0) : start + 4 + (start >= 0)] = [RESULT]
    return moves, operands


def solve(question: str, digits: int = 3) -> str:
    """The solution of a question, by `steps_of`."""
    moves, operands = steps_of(question)
    result = operands[0]
    for move in moves:
        first, sign, second = (result if word == RESULT else word for word in _call(move, operands))
        left, right = (int(word.replace(" ", "")) for word in (first, second))
        result = spelled(OPERATIONS[sign](left, right) % 10**digits, digits)
    return result


def demonstrator(
    *, pair: float = 0.4, sign: float = 0.6, stop: float = 0.3, slip: float = 0.067, name: str = "chains-demonstrator"
) -> ScriptedAgent:
    """An agent that shows what moves and calls look like, with faults: what a warm start imitates.

    It plays both roles of `column-arithmetic`: at ``plan`` it goes through the chain in the right order, at ``call`` it
    writes out what was planned, which at the end is the last result.

    Args:
        pair: how often the right operands are planned; else others, any equally likely.
        sign: how often the right sign is planned; else another.
        stop: how often it ends the chain after its first call already.
        slip: how often a digit of a call is replaced by a random one.
        name: key in lineups and ratings.
    """

    def say(ask: Ask) -> str:
        turns = {node: [turn.text for turn in ask.heard if turn.node == node] for node in ("plan", "result")}
        moves, operands = steps_of(str(ask.task.fields["question"]))
        draw = uniforms([ask.seed] * 32, list(range(32))).tolist()
        last = turns["result"][-1] if turns["result"] else " ".join(_NOTHING * len(operands[0].split()))
        if ask.node == "plan":
            return _planned(moves, len(turns["plan"]), list(ask.options), draw, pair, sign, stop)
        planned = _call(turns["plan"][-1], operands)
        words = " ".join(last if word == RESULT else word for word in planned).split()
        return " ".join(_slipped(word, at, draw, slip) for at, word in enumerate(words))

    return ScriptedAgent(name, say)


def _planned(
    moves: Sequence[str],
    done: int,
    options: Sequence[str],
    draw: Sequence[float],
    pair: float,
    sign: float,
    stop: float,
) -> str:
    if done >= len(moves) or (done == 1 and draw[0] < stop):
        return ANSWER
    right_pair, right_sign = moves[done].split()
    pairs = list(dict.fromkeys(option.split()[0] for option in options if option not in (ANSWER, "")))
    chosen = right_pair if draw[1] < pair else _any_of([each for each in pairs if each != right_pair], draw[2])
    used = right_sign if draw[3] < sign else _any_of([each for each in OPERATIONS if each != right_sign], draw[4])
    return f"{chosen} {used}"


def _any_of(items: Sequence[str], draw: float) -> str:
    return items[int(draw * len(items))]


def _slipped(word: str, at: int, draw: Sequence[float], slip: float) -> str:
    """A digit, or now and then another one (or the same: any of ten)."""
    wrong = word.isdecimal() and draw[2 * at] < slip
    return str(int(draw[2 * at + 1] * 10)) if wrong else word
