"""Programs that take part in a protocol: tools, which a speaker calls, and checks, which examine what was said.

A plain function with annotations is a tool as well:

    from arena.agents.tools import tool

    @tool
    def convert(miles: float) -> float:
        '''Miles in kilometres.'''
        return miles * 1.609344

What is registered here is imported when it is first built.
"""

from arena.agents.tools.calls import check_reads, failed, run_call, run_check, tools_of
from arena.agents.tools.functions import function_tool, tool
from arena.protocols.programs import CHECKS, TOOLS, Call, Check, Outcome, Tool

__all__ = [
    "CHECKS",
    "TOOLS",
    "Call",
    "Check",
    "Outcome",
    "Tool",
    "check_reads",
    "failed",
    "function_tool",
    "run_call",
    "run_check",
    "tool",
    "tools_of",
]

TOOLS.lazy("calculator", "arena.agents.tools.calculator:calculator", "works out an arithmetic expression")
TOOLS.lazy(
    "column", "arena.agents.tools.column:column", "one sum of numbers that are written digit by digit: 1 2 + 3 4"
)
TOOLS.lazy(
    "lookup", "arena.agents.tools.lookup:lookup", "finds passages of a task field by words: lookup:field=passage"
)
TOOLS.lazy("python", "arena.agents.tools.python:python", "runs a program in a sandbox without files or network")
TOOLS.lazy("search", "arena.agents.tools.search:search", "finds passages of a corpus by words: search:path=FOLDER")
TOOLS.lazy("substitute", "arena.agents.tools.words:substitute", "puts a word in the place of another one of a text")

CHECKS.lazy(
    "aligned", "arena.agents.tools.words:aligned", "the words of a task field, place by place: aligned:field=solution"
)
CHECKS.lazy("exact", "arena.agents.tools.checks:exact", "the text of a task field: exact:field=solution")
CHECKS.lazy(
    "json_schema", "arena.agents.tools.form_checks:json_schema", "JSON that keeps to a schema: json_schema:schema={...}"
)
CHECKS.lazy(
    "math", "arena.agents.tools.math_answer:math", "an expression that is equal to that of a task field: math:field=..."
)
CHECKS.lazy(
    "misplaced",
    "arena.agents.tools.words:misplaced",
    "names a place where a text is wrong: misplaced:field=solution,text=FIELD",
)
CHECKS.lazy(
    "multiple_choice",
    "arena.agents.tools.form_checks:multiple_choice",
    "states the right one of the answers, strictly read: multiple_choice:field=solution",
)
CHECKS.lazy("numeric", "arena.agents.tools.checks:numeric", "the number of a task field: numeric:field=solution")
CHECKS.lazy(
    "quotes", "arena.agents.tools.form_checks:quotes", "quotes that a task field really holds: quotes:field=passage"
)
CHECKS.lazy(
    "reasoning_gym",
    "arena.agents.tools.puzzles:reasoning_gym",
    "solves a task of reasoning-gym, by that library's scorers: reasoning_gym:field=entry",
)
CHECKS.lazy("regex", "arena.agents.tools.checks:regex", "a text that a pattern (RE2) matches: regex:pattern=...")
CHECKS.lazy("unit_tests", "arena.agents.tools.unit_tests:unit_tests", "a program that passes the tests of a task field")
