"""Floor 1: the protocol language and the records that everybody shares.

protocol = load_protocol("debate", {"rounds": 3})
flow = protocol.flow()
while flow.ready:
    ...               # flow.ready: the nodes that act at once
    flow.advance()
"""

from arena.protocols.documents import Document, parse_document, read_document, validate_model
from arena.protocols.errors import ArenaError, ConfigError, Fault, SourceError, UnknownNameError, UserError
from arena.protocols.expressions import Expression
from arena.protocols.flow import Flow
from arena.protocols.graph import Budget, Edge, Node, Protocol, Reward, Role, Scope
from arena.protocols.loader import library, load_protocol, restore_protocol, sources_of
from arena.protocols.quotes import QuoteRule, QuoteSource, find_quotes, mark_quotes
from arena.protocols.records import Episode, Quote, Sampling, Task, TokenSpan, Turn, TurnStatus, Verdict, VerdictStatus
from arena.protocols.registry import Registry, Spec, parse_spec
from arena.protocols.templates import Template
from arena.protocols.words import expand_words

__all__ = [
    "ArenaError",
    "Budget",
    "ConfigError",
    "Document",
    "Edge",
    "Episode",
    "Expression",
    "Fault",
    "Flow",
    "Node",
    "Protocol",
    "Quote",
    "QuoteRule",
    "QuoteSource",
    "Registry",
    "Reward",
    "Role",
    "Sampling",
    "Scope",
    "SourceError",
    "Spec",
    "Task",
    "Template",
    "TokenSpan",
    "Turn",
    "TurnStatus",
    "UnknownNameError",
    "UserError",
    "Verdict",
    "VerdictStatus",
    "expand_words",
    "find_quotes",
    "library",
    "load_protocol",
    "mark_quotes",
    "parse_document",
    "parse_spec",
    "read_document",
    "restore_protocol",
    "sources_of",
    "validate_model",
]
