"""What a picture says about a node and an edge, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from arena.protocols.graph import Edge, Node, Protocol
from arena.protocols.outputs import OutputRule

__all__ = ["guard_of", "node_facts", "plain"]

_DEEDS = {"speak": "speaks", "human": "speaks, a person", "tool": "runs the call of", "verify": "checks"}


def node_facts(protocol: Protocol, node: Node) -> tuple[str, ...]:
    """Lines below a node's name: who does what about what, then the form, the bounds and the readers of its turn."""
    in_turn = ["one after the other"] if node.in_turn else []
    told = [_deed(protocol, node), *in_turn, *_reading(protocol, node), *_form(node), *_limits(node), *_choosing(node)]
    return tuple(plain(fact) for fact in told + _readers(protocol, node))


def guard_of(edge: Edge) -> tuple[str, ...]:
    """The bound, the condition and the stop reason of an edge; empty for a plain one."""
    parts = []
    if edge.times is not None:
        bound = "" if edge.bound in ("", str(edge.times)) else f" ({edge.bound})"
        parts.append(f"up to {_many(edge.times, 'time')}{bound}" if edge.times else f"never{bound}")
    if edge.when is not None:
        parts.append(f"when {edge.when.source}")
    if edge.stop:
        parts.append(f"stop: {edge.stop}")
    return tuple(plain(part) for part in parts)


def plain(text: str) -> str:
    """``text`` on one line, without characters that cannot be printed."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))


def _deed(protocol: Protocol, node: Node) -> str:
    # A node of one seat of a counted role names that seat; all of them are drawn as one box.
    role = (node.role.name if node.group == node.name else node.role.group).rpartition(".")[2]
    about = _names(protocol, node, node.about)
    if node.kind == "judge":
        return f"{role} decides"
    if node.kind == "critique":
        return f"{role} comments on {about}"
    if node.kind == "revise":
        return f"{role} revises {about}"
    if node.kind == "vote":
        what = "the verdicts" if all(protocol.nodes[name].gives_verdict for name in node.about) else node.count
        return f"mean of {what} of {about}" if node.rule == "mean" else f"{node.rule} of {what} of {about}"
    if node.kind == "select":
        return f"best of {about}{_rated_by(node)}"
    if node.kind == "compute":
        return "; ".join(f"{name} = {expression.source}" for name, expression in node.computes.items())
    if node.run:
        return f"{role} runs {node.run}"
    seat = "" if node.role.argues is None or node.role.number else f", seat {node.role.argues}"
    return f"{role} {_DEEDS[node.kind]}{f' {about}' if about else ''}{seat}"


def _rated_by(node: Node) -> str:
    judged = f" by {node.by.group}" if node.by else ""
    return f"{judged}: most {node.value.source}" if node.value else judged


def _reading(protocol: Protocol, node: Node) -> Iterator[str]:
    """What a judge decides from."""
    if node.kind != "judge":
        return
    if not any(other.speaks and other.scope is node.scope for other in protocol.nodes.values()):
        yield "reads no turn"
    elif node.reads is not None:
        yield f"reads {_names(protocol, node, node.reads) or 'no turn'}"
    else:
        yield "reads good quotes" if node.role.hears == "quotes" else "reads all turns"


def _form(node: Node) -> Iterator[str]:
    if node.quote:
        yield f"quotes {node.quote.field}" + (", each once" if node.quote.once else "")
    if node.draws:
        yield "draws " + ", ".join(f"{name} from {source}" for name, source in node.draws.items())
    if node.output:
        tries = f", {_many(node.retries, 'retry', 'retries')}" if node.retries else ""
        yield _output(node.output) + (" or not" if node.output.optional else "") + tries
    if node.claims:
        yield "argues what it chose"


def _output(rule: OutputRule) -> str:
    if rule.kind == "choice":
        return f"chooses from {rule.choices_field or ', '.join(rule.choices)}"
    if rule.kind == "call":
        return f"calls {', '.join(rule.tools)}"
    if rule.kind == "json":
        return f"gives {', '.join(rule.fields)}"
    return f"gives {', '.join(rule.fields)}" if rule.fields else "has a pattern"


def _limits(node: Node) -> Iterator[str]:
    limits = ((node.max_words, "word"), (node.max_tokens, "token"), (node.max_thinking, "thinking token"))
    if given := ", ".join(_many(limit, unit) for limit, unit in limits if limit is not None):
        yield f"at most {given}" + (", else refused" if node.refuses else "")


def _choosing(node: Node) -> Iterator[str]:
    if node.best_of:
        judged = f" by {node.best_of.by.group}" if node.best_of.by else ""
        yield f"best of {node.best_of.n}{judged}: most {node.best_of.value.source}"


def _readers(protocol: Protocol, node: Node) -> list[str]:
    if node.ephemeral:
        return ["read by nobody, and forgotten"]
    if node.audience is None:
        return []
    groups = {role.seat: role.group for role in protocol.roles.values() if role.number}
    scope = f"{node.scope.name}." if node.scope else ""
    heard = (groups.get(seat, seat).removeprefix(scope) for seat in node.audience if seat != node.role.seat)
    readers = dict.fromkeys(heard)
    return [f"read by {', '.join(readers) or 'nobody else'}"] if node.kind != "compute" else []


def _names(protocol: Protocol, node: Node, names: Iterable[str]) -> str:
    """Nodes as the file calls them, without the scope that they share with ``node``."""
    scope = f"{node.scope.name}." if node.scope and node.scope.name else ""
    groups = dict.fromkeys((protocol.nodes[n].group if n in protocol.nodes else n).removeprefix(scope) for n in names)
    return ", ".join(groups)


def _many(count: int, unit: str, plural: str = "") -> str:
    return f"{count} {unit if count == 1 else plural or unit + 's'}"
