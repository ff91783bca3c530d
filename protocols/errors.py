"""Every exception that debate-arena raises on purpose.

    ArenaError
    ├── UserError                 a mistake in a file, an argument or data: printed in one message, exit 2
    │   ├── SourceError           faults in a file, each with file:line:col   (also ValueError)
    │   ├── ConfigError           a value that cannot work                    (also ValueError)
    │   │   └── LanguageError     an expression or template that cannot work
    │   ├── UnknownNameError      a name that nothing is registered under     (also LookupError)
    │   ├── MissingExtraError     an optional dependency is not installed     (also ImportError)
    │   └── StoreError            the run directory cannot be read or written (also OSError)
    │       └── ResumeError       a run would continue under another config
    ├── BackendError              a model or server failed                    (also RuntimeError)
    ├── NumericalError            a number that must be finite is not         (also ArithmeticError)
    ├── SelfCheckError            training would start from a false premise   (also RuntimeError)
    ├── UndecidedError            too many verdicts cannot be used            (also RuntimeError)
    └── LeftError                 the person who judges has left              (also EOFError)

User mistakes carry their way out in the message; everything else is a bug or a fault of the machine.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "ArenaError",
    "BackendError",
    "ConfigError",
    "Fault",
    "LanguageError",
    "LeftError",
    "MissingExtraError",
    "NumericalError",
    "ResumeError",
    "SelfCheckError",
    "SourceError",
    "StoreError",
    "UndecidedError",
    "UnknownNameError",
    "UserError",
    "suggest",
]


class ArenaError(Exception):
    """Root of the tree."""


class UserError(ArenaError):
    """A mistake of the user, told in one message without a traceback."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake in one file."""

    file: str
    line: int
    """1-based; 0 when the place is not known."""
    column: int
    """1-based; 0 when the place is not known."""
    where: str
    """Path inside the document, such as ``roles.judge.sees``."""
    what: str
    """What is wrong and the way out."""

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"{self.file}:{self.line}:{self.column}: {where}{self.what}"


class SourceError(UserError, ValueError):
    """A file with one or more faults, all reported together."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[SourceError], tuple[tuple[Fault, ...]]]:
        return type(self), (self.faults,)


class ConfigError(UserError, ValueError):
    """A value that cannot work, with its name and the way out."""


class LanguageError(ConfigError):
    """An expression or a template that cannot be compiled."""

    def __init__(self, what: str, offset: int = 0) -> None:
        self.what = what
        self.offset = offset
        """Count of characters into the source where the mistake begins."""
        super().__init__(what)

    def __reduce__(self) -> tuple[type[LanguageError], tuple[str, int]]:
        return type(self), (self.what, self.offset)


class UnknownNameError(UserError, LookupError):
    """A name that nothing is registered under."""


class MissingExtraError(UserError, ImportError):
    """An optional dependency is missing; the message holds the pip line."""


class StoreError(UserError, OSError):
    """The run directory or its database cannot be used."""


class ResumeError(StoreError):
    """The stored run was made under a different configuration."""


class BackendError(ArenaError, RuntimeError):
    """A model or a server failed to answer."""


class NumericalError(ArenaError, ArithmeticError):
    """A loss, gradient or reward is not finite."""


class SelfCheckError(ArenaError, RuntimeError):
    """The step-0 check of a training run failed; nothing was trained."""


class AlarmError(ArenaError, RuntimeError):
    """A training rang an alarm that its recipe says must end it; its checkpoint is kept."""


class UndecidedError(ArenaError, RuntimeError):
    """A judge decides so little that what rests on its verdicts would mean nothing."""


class LeftError(ArenaError, EOFError):
    """The person who judges has ended the input; what was judged is kept."""


def suggest(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for a misspelt name, or the list of what there is."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" There is: {', '.join(options)}." if options else ""
