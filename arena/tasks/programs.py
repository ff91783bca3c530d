"""Small programming tasks with unit tests, in plain Python: functions over numbers, texts, lists and mappings.

Each has a ``prompt``, which names the function; ``tests``, which its checker alone should see; and a ``solution``
that passes them. They use no more of Python than the sandbox of `arena.agents.tools` knows (no generators, no class
inheritance).
"""

from __future__ import annotations

import random

from arena.protocols.records import Task
from arena.tasks.types import TaskSet, split_tasks

__all__ = ["programs"]


def programs(*, seed: int = 0, test: int = 5) -> TaskSet:
    """Sixteen tasks with the fields ``prompt``, ``tests`` and ``solution``; ``seed`` draws which are tested on."""
    tasks = [
        Task(f"programs-{name}", {"prompt": f"Write a Python function {prompt}", "tests": tests, "solution": solution})
        for name, prompt, tests, solution in _PROGRAMS
    ]
    return split_tasks(f"programs:seed={seed},test={test}", tasks, test=test, rng=random.Random(f"programs {seed}"))


_PROGRAMS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (
        "digits",
        "`digit_sum(n)` that gives the sum of the decimal digits of a whole number; a minus sign does not count.",
        ("assert digit_sum(0) == 0", "assert digit_sum(1234) == 10", "assert digit_sum(-95) == 14"),
        "def digit_sum(n):\n    return sum(int(c) for c in str(abs(n)))",
    ),
    (
        "vowels",
        "`count_vowels(text)` that counts the letters a, e, i, o and u in a text, in either case.",
        ("assert count_vowels('') == 0", "assert count_vowels('Audio') == 4", "assert count_vowels('rhythm') == 0"),
        "def count_vowels(text):\n    return sum(c in 'aeiou' for c in text.lower())",
    ),
    (
        "second",
        "`second_largest(numbers)` that gives the second largest of the different numbers in a list, or None.",
        (
            "assert second_largest([3, 1, 2]) == 2",
            "assert second_largest([5, 5, 4]) == 4",
            "assert second_largest([7, 7]) == None",
            "assert second_largest([]) == None",
        ),
        "def second_largest(numbers):\n    found = sorted(set(numbers))\n"
        "    return found[-2] if len(found) > 1 else None",
    ),
    (
        "runs",
        "`encode(text)` that shortens runs of a character to pairs: 'aab' gives [['a', 2], ['b', 1]].",
        (
            "assert encode('') == []",
            "assert encode('aab') == [['a', 2], ['b', 1]]",
            "assert encode('aba') == [['a', 1], ['b', 1], ['a', 1]]",
        ),
        "def encode(text):\n    found = []\n    for c in text:\n        if found and found[-1][0] == c:\n"
        "            found[-1][1] += 1\n        else:\n            found.append([c, 1])\n    return found",
    ),
    (
        "balanced",
        "`balanced(text)` that tells whether the brackets ()[]{} of a text are closed in the right order.",
        (
            "assert balanced('a(b[c]{d})') == True",
            "assert balanced('(]') == False",
            "assert balanced('((') == False",
            "assert balanced(')(') == False",
            "assert balanced('') == True",
        ),
        "def balanced(text):\n    pairs = {')': '(', ']': '[', '}': '{'}\n    stack = []\n    for c in text:\n"
        "        if c in '([{':\n            stack.append(c)\n        elif c in pairs:\n"
        "            if not stack or stack.pop() != pairs[c]:\n                return False\n    return not stack",
    ),
    (
        "primes",
        "`primes(n)` that gives the list of all prime numbers up to and including n.",
        ("assert primes(1) == []", "assert primes(2) == [2]", "assert primes(20) == [2, 3, 5, 7, 11, 13, 17, 19]"),
        "def primes(n):\n    return [p for p in range(2, n + 1) if all(p % d for d in range(2, p))]",
    ),
    (
        "words",
        "`word_counts(text)` that counts how often each word stands in a text, words being split at white space and "
        "taken in lower case.",
        (
            "assert word_counts('') == {}",
            "assert word_counts('To be or not to be') == {'to': 2, 'be': 2, 'or': 1, 'not': 1}",
            "assert word_counts(' a  A ') == {'a': 2}",
        ),
        "def word_counts(text):\n    found = {}\n    for word in text.lower().split():\n"
        "        found[word] = found.get(word, 0) + 1\n    return found",
    ),
    (
        "merge",
        "`merge(a, b)` that joins two sorted lists of numbers into one sorted list.",
        (
            "assert merge([], []) == []",
            "assert merge([1, 4], [2, 3, 9]) == [1, 2, 3, 4, 9]",
            "assert merge([2], [2]) == [2, 2]",
        ),
        "def merge(a, b):\n    return sorted(a + b)",
    ),
    (
        "roman",
        "`roman(n)` that writes a whole number from 1 to 3999 in Roman numerals.",
        (
            "assert roman(1) == 'I'",
            "assert roman(4) == 'IV'",
            "assert roman(1994) == 'MCMXCIV'",
            "assert roman(3888) == 'MMMDCCCLXXXVIII'",
        ),
        "def roman(n):\n    table = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'),\n"
        "        (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]\n    text = ''\n"
        "    for value, sign in table:\n        while n >= value:\n            text += sign\n            n -= value\n"
        "    return text",
    ),
    (
        "rotate",
        "`rotate(items, k)` that moves the last k items of a list to its front; k may be larger than the list.",
        (
            "assert rotate([1, 2, 3, 4], 1) == [4, 1, 2, 3]",
            "assert rotate([1, 2, 3], 5) == [2, 3, 1]",
            "assert rotate([], 3) == []",
        ),
        "def rotate(items, k):\n    if not items:\n        return []\n    k %= len(items)\n"
        "    return items[len(items) - k:] + items[:len(items) - k]",
    ),
    (
        "change",
        "`fewest_coins(amount, coins)` that gives the least number of coins, each usable often, for an amount, or -1.",
        (
            "assert fewest_coins(0, [5]) == 0",
            "assert fewest_coins(6, [1, 3, 4]) == 2",
            "assert fewest_coins(7, [2, 4]) == -1",
            "assert fewest_coins(63, [1, 5, 10, 21, 25]) == 3",
        ),
        "def fewest_coins(amount, coins):\n    best = [0] + [None] * amount\n    for total in range(1, amount + 1):\n"
        "        options = [best[total - c] for c in coins if c <= total and best[total - c] is not None]\n"
        "        best[total] = min(options) + 1 if options else None\n"
        "    return -1 if best[amount] is None else best[amount]",
    ),
    (
        "palindrome",
        "`palindrome(text)` that tells whether the letters and digits of a text read the same backwards, case aside.",
        (
            "assert palindrome('A man, a plan, a canal: Panama') == True",
            "assert palindrome('ab') == False",
            "assert palindrome('') == True",
            "assert palindrome('1a1') == True",
        ),
        "def palindrome(text):\n    found = [c for c in text.lower() if c.isalnum()]\n    return found == found[::-1]",
    ),
    (
        "flatten",
        "`flatten(items)` that gives the values of a list of lists of lists ..., however deep, as one list in order.",
        (
            "assert flatten([]) == []",
            "assert flatten([1, [2, [3, []], 4]]) == [1, 2, 3, 4]",
            "assert flatten([[['a']]]) == ['a']",
        ),
        "def flatten(items):\n    found = []\n    for item in items:\n"
        "        found += flatten(item) if isinstance(item, list) else [item]\n    return found",
    ),
    (
        "intervals",
        "`join_intervals(intervals)` that joins [start, end] pairs which overlap or touch and gives them sorted.",
        (
            "assert join_intervals([]) == []",
            "assert join_intervals([[5, 6], [1, 3], [2, 4]]) == [[1, 4], [5, 6]]",
            "assert join_intervals([[1, 2], [2, 3]]) == [[1, 3]]",
            "assert join_intervals([[1, 9], [2, 3]]) == [[1, 9]]",
        ),
        "def join_intervals(intervals):\n    found = []\n    for start, end in sorted(intervals):\n"
        "        if found and start <= found[-1][1]:\n            found[-1][1] = max(found[-1][1], end)\n"
        "        else:\n            found.append([start, end])\n    return found",
    ),
    (
        "caesar",
        "`caesar(text, k)` that moves each letter k places on in the alphabet, from z to a; case and other signs stay.",
        (
            "assert caesar('abc', 1) == 'bcd'",
            "assert caesar('Xyz!', 3) == 'Abc!'",
            "assert caesar('b', -1) == 'a'",
        ),
        "def caesar(text, k):\n    found = ''\n    for c in text:\n        if c.isalpha():\n"
        "            first = ord('a') if c.islower() else ord('A')\n"
        "            found += chr((ord(c) - first + k) % 26 + first)\n        else:\n            found += c\n"
        "    return found",
    ),
    (
        "pascal",
        "`pascal(n)` that gives row n of Pascal's triangle, row 0 being [1].",
        ("assert pascal(0) == [1]", "assert pascal(1) == [1, 1]", "assert pascal(5) == [1, 5, 10, 10, 5, 1]"),
        "def pascal(n):\n    row = [1]\n    for k in range(n):\n        row.append(row[-1] * (n - k) // (k + 1))\n"
        "    return row",
    ),
)
