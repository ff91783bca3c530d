"""What is paid to whom, and when."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any, cast

from arena.protocols.compiler.given import UNKNOWN, gives, gives_verdict
from arena.protocols.compiler.references import Ref, find_key, find_nodes
from arena.protocols.compiler.roles import find_roles
from arena.protocols.compiler.scope import Move, Unit
from arena.protocols.compiler.settings import REWARD_NAMES
from arena.protocols.compiler.timing import Timing
from arena.protocols.compiler.values import constant, expression, try_number
from arena.protocols.documents import KeyPath
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.expressions import Expression
from arena.protocols.graph import Reward, Role
from arena.protocols.schema import RewardFile

__all__ = ["read_rewards"]

PAYS = ("each_turn", "end", "next", "turn")
TURN_VALUES: Mapping[str, Any] = {"words": 2, "tokens": 3, "bad_quotes": 1, "ok": True}
"""What ``pay: turn`` knows of the turn, beside fields of its output."""
_TRIALS = 20


def read_rewards(unit: Unit) -> tuple[Reward, ...]:
    """The rewards of the protocol."""
    raw = unit.document.get(("rewards",))
    paths: list[KeyPath] = (
        [("rewards", index) for index in range(len(raw))] if isinstance(raw, list) else [("rewards",)]
    )
    if raw is None:
        return ()
    if raw == []:
        unit.add(("rewards",), "an empty list pays nobody: remove it", key=True)
    found = (_Reader(unit, path).read() for path in paths)
    return tuple(reward for reward in found if reward)


class _Reader:
    """One reward of the file."""

    def __init__(self, unit: Unit, path: KeyPath) -> None:
        self.unit, self.path = unit, path
        self.file: RewardFile | None = unit.work.part(unit.document, RewardFile, path)[0]
        self.of_turns: set[str] = set()
        """Fields of turns that values of ``pay: turn`` may name, even where a verdict has one of that name."""

    def read(self) -> Reward | None:
        """The reward; None, with a fault, if it is none."""
        file = self.file
        if file is None:
            return None
        verdict = self.read_verdict()
        pay = self.read_pay()
        roles = self.read_roles()
        values = {role.seat: value for role in roles if (value := self.read_value(role, pay)) is not None}
        bad_quote = self.read_bad_quote(roles)
        good = len(values) == len(roles) and bad_quote is not None and pay in PAYS and (file.verdict is None or verdict)
        if not good or not roles:
            return None
        names = frozenset().union(*(value.names for value in values.values()))
        self.check_verdict(verdict, names)
        self.check_pay(pay, verdict, values)
        reward = Reward(
            roles=tuple(role.seat for role in roles),
            verdict=verdict.names[0] if verdict else None,
            values=values,
            pay=cast(Any, pay),
            bad_quote=float(bad_quote or 0),
            zero_sum=file.zero_sum,
        )
        if file.zero_sum:
            self.check_zero_sum(reward, roles)
        return reward

    def add(self, key: str, what: str, *, key_itself: bool = False) -> None:
        """Report a fault at a key of the reward."""
        self.unit.add((*self.path, key), what, key=key_itself)

    def read_verdict(self) -> Ref | None:
        """The node whose verdict pays."""
        file, unit = self.file, self.unit
        if file is None or file.verdict is None:
            return None
        ref = find_nodes(unit, file.verdict)
        deciding = [name for name, move in unit.moves.items() if gives_verdict(move)]
        if ref is None or ref.move.kind is None or not gives_verdict(ref.move):
            faulty = ref is None and file.verdict in unit.node_names
            if not faulty:
                what = f"'{file.verdict}' is not a judge node, nor a vote on answers.{suggest(file.verdict, deciding)}"
                self.add("verdict", what)
        elif ref.many:
            self.add("verdict", f"'{file.verdict}' are {len(ref.names)} judgements: name one, or a vote over them")
        elif ref.names:
            if any("answers" in each.bound for each in ref.unit.chain()):
                self.add("verdict", f"'{file.verdict}' judges answers of a nested protocol, which nobody argues here")
            return ref
        else:
            self.add("verdict", f"'{file.verdict}' never runs with these params")
        return None

    def read_pay(self) -> str:
        """When it is paid: one of the ways, or a param that holds one."""
        assert self.file is not None
        unit = self.unit
        pay = unit.params.get(self.file.pay, self.file.pay)
        unit.used_params |= {self.file.pay} & unit.params.keys()
        if pay not in PAYS:
            known = [*PAYS, *(name for name, default in unit.params.items() if isinstance(default, str))]
            self.add("pay", f"'{pay}' is no way to pay.{suggest(str(pay), known)}")
        return str(pay)

    def read_roles(self) -> list[Role]:
        """Who is paid."""
        assert self.file is not None
        unit, file = self.unit, self.file
        keys = list(file.value) if isinstance(file.value, dict) else []
        if file.roles is None and not keys:
            arguing = [role for roles in unit.roles.values() for role in roles if role.argues is not None]
            if not arguing and unit.sound:
                what = (
                    "rewards pay roles that argue an answer, and none does: add 'argues: 0' to a role, or say who is "
                    "paid with 'roles'"
                )
                unit.add(self.path, what, key=True)
            return arguing
        found: dict[str, Role] = {}
        for index, name in enumerate(keys if file.roles is None else file.roles):
            path = (*self.path, "value", name) if file.roles is None else (*self.path, "roles", index)
            for role in find_roles(unit, path, name):
                if role.tools or role.check is not None:
                    unit.add(path, f"role '{name}' is a program and cannot be paid")
                    break
                if role.seat in found:
                    unit.add(path, f"role '{role.seat}' is named twice")
                    break
                found[role.seat] = role
        if file.roles == []:
            self.add("roles", "an empty list pays nobody: remove it")
        self.check_value_keys(keys, found)
        return list(found.values())

    def check_value_keys(self, keys: list[str], paid: Mapping[str, Role]) -> None:
        """Where each role has a value of its own, all that are paid have one, and nobody else."""
        if not keys:
            return
        covered = {role.seat for key in keys for role in self.unit.roles.get(key, ())} | set(keys)
        for seat in paid:
            if seat not in covered:
                self.add("value", f"role '{seat}' is paid, but has no value here", key_itself=True)
        for key in keys:
            seats = {role.seat for role in self.unit.roles.get(key, ())} or {key}
            if not seats & paid.keys() and key in self.unit.role_names:
                self.unit.add((*self.path, "value", key), f"role '{key}' is not paid: add it to 'roles'", key=True)

    def read_value(self, role: Role, pay: str) -> Expression | None:
        """What a role is paid."""
        assert self.file is not None
        source, path = self.file.value, (*self.path, "value")
        if isinstance(source, dict):
            own = role.name if role.name in source else role.group
            if own not in source:
                return None
            source, path = source[own], (*path, own)
        plain: dict[str, Any] = dict.fromkeys(REWARD_NAMES, 0.5)
        if pay == "turn":
            fields = self.turn_fields(role)
            self.of_turns |= fields.keys()
            plain |= {**TURN_VALUES, **fields}
        compiled = expression(self.unit, path, source, plain, member=role.number)
        try_number(self.unit, path, compiled, plain)
        if compiled is None:
            return None
        own_answer = {"margin", "p", "won"} & compiled.names
        if own_answer and role.argues is None:
            name = sorted(own_answer)[0]
            instead = f"{self.file.verdict or 'VERDICT'}.{'p' if name == 'won' else name}"
            what = (
                f"'{name}' is of the answer that the role argues, and role '{role.group}' argues none: add 'argues', "
                f"or use the verdict's own fields, such as {instead}"
            )
            self.unit.add(path, what)
            return None
        return compiled

    def turn_fields(self, role: Role) -> dict[str, Any]:
        """Fields of the outputs of a role's turns."""
        found: dict[str, Any] = {}
        for unit in self.unit.work.units:
            for move in unit.live_moves():
                if move.speaks and any(each.seat == role.seat for each in move.roles):
                    rule = unit.outputs.get(move.name)
                    fields = gives(Ref([move], move.names))
                    found |= {name: fields[name].sample for name in (rule.fields if rule else ()) if name in fields}
        return found

    def read_bad_quote(self, roles: list[Role]) -> float | None:
        """What a bad quote costs."""
        assert self.file is not None
        unit, written = self.unit, self.file.bad_quote
        value = constant(unit, (*self.path, "bad_quote"), written)
        if value is None:
            return None
        if isinstance(value, bool | str) or not math.isfinite(value):
            self.add("bad_quote", f"'{written}' is {value!r}, not a number")
            return None
        seats = {role.seat for role in roles}
        quoting = [move for each in unit.work.units for move in each.live_moves() if move.file.quote is not None]
        complete = len(unit.node_files) == len(unit.node_names)
        if value and complete and not any(role.seat in seats for move in quoting for role in move.roles):
            what = "no node quotes anything, so this is never paid: remove it"
            self.add(
                "bad_quote", what if not quoting else "nobody who is paid quotes anything: remove it", key_itself=True
            )
        return float(value)

    # -- what goes together

    def check_verdict(self, verdict: Ref | None, names: frozenset[str]) -> None:
        """A verdict is named exactly where a value speaks of it."""
        uses = sorted(({*REWARD_NAMES} & names) - self.of_turns)
        if uses and verdict is None:
            self.unit.add(self.path, f"'{uses[0]}' is of a verdict: write verdict: NODE", key=True)
        if verdict is not None and not uses:
            what = f"'verdict' does nothing: the value uses none of {', '.join(REWARD_NAMES)}"
            self.add("verdict", what, key_itself=True)

    def check_pay(self, pay: str, verdict: Ref | None, values: Mapping[str, Expression]) -> None:
        """What each way to pay needs."""
        assert self.file is not None
        names = frozenset().union(*(value.names for value in values.values()))
        if pay == "each_turn":
            if verdict is None or verdict.move.kind != "judge":
                self.add("pay", "'each_turn' asks a judge after every turn: name a judge node as 'verdict'")
            elif names - {*REWARD_NAMES}:
                first = min(names - {*REWARD_NAMES})
                self.add("value", f"'each_turn' pays the change of a verdict, and '{first}' is none of its values")
        elif pay == "next" and verdict is None and not any("." in name for name in names):
            self.add("pay", "'next' waits for a node that the value names, and it names none")
        elif pay == "next":
            self.check_next(verdict, values)
        elif pay == "turn":
            if verdict is not None:
                self.add(
                    "pay", "'turn' pays what the turn itself is worth, before any verdict: use 'end' or 'each_turn'"
                )
            if self.file.zero_sum:
                self.add("zero_sum", "turns that are paid one by one cannot add up to 0: remove it", key_itself=True)
            if not names:
                self.add(
                    "pay",
                    "the value is the same for every turn: use words, ok or a field of the turn, or another way to pay",
                )

    def check_next(self, verdict: Ref | None, values: Mapping[str, Expression]) -> None:
        """What ``pay: next`` waits for can come after a turn that it pays."""
        work = self.unit.work
        timing = Timing(work.graph, (each.name for each in work.units))
        for seat, value in values.items():
            refs = [found[0] for key in sorted(value.names) if (found := find_key(self.unit, key.split(".")))]
            awaited = {name for ref in [*refs, *([verdict] if verdict else [])] for name in ref.names}
            moves = [move for each in work.units for move in each.live_moves() if move.speaks]
            own = [
                name for move in moves for name, role in zip(move.names, move.roles, strict=False) if role.seat == seat
            ]
            if own and awaited and not timing.may_follow(awaited, own):
                names = " and ".join(f"'{name}'" for name in sorted(awaited))
                self.add("pay", f"'next' never pays '{seat}': {names} cannot run after a turn of its own")

    def check_zero_sum(self, reward: Reward, roles: list[Role]) -> None:
        """Try values of all kinds: what the roles are paid must add up to 0."""
        if len(roles) < 2:
            self.add("zero_sum", "one role alone cannot be paid zero-sum", key_itself=True)
            return
        own = [value.names - {*REWARD_NAMES} for value in reward.values.values()]
        if any(a - b and b - a for a in own for b in own):
            return  # such as payoff.first and payoff.second, which may depend on each other
        for names in self.samples(reward, roles):
            try:
                total = math.fsum(reward.values[role.seat](names[role.seat]) for role in roles)
            except (ConfigError, TypeError):
                return  # checked in every episode
            if abs(total) > 1e-9:
                shown = " + ".join(f"{role.seat} {reward.values[role.seat](names[role.seat]):g}" for role in roles)
                self.add("zero_sum", f"the values do not add up to 0: they may be {shown}", key_itself=True)
                return

    def samples(self, reward: Reward, roles: list[Role]) -> Iterator[dict[str, dict[str, Any]]]:
        """Values that an episode may have: seat -> name -> value; the same every time."""
        draw = random.Random(0)
        seats = max((role.argues or 0 for role in roles), default=0) + 1
        keys = frozenset().union(*(value.names for value in reward.values.values())) - {*REWARD_NAMES}
        for _ in range(_TRIALS):
            shared = {key: value for key in keys if (value := self.draw(key, draw)) is not UNKNOWN}
            if len(shared) < len(keys):
                return
            weights = [draw.random() + 0.01 for _ in range(max(seats, 2))]
            label = draw.randrange(len(weights))
            yield {role.seat: {**shared, **_of_verdict(weights, role.argues, label)} for role in roles}

    def draw(self, key: str, draw: random.Random) -> Any:
        """One value of a node's field."""
        found = find_key(self.unit, key.split("."))
        if found is None:
            return UNKNOWN
        ref, part = found
        sample = gives(ref)[part].sample if part in gives(ref) else UNKNOWN
        if sample is UNKNOWN or ref.many:
            return UNKNOWN
        return _vary(ref.move, part, sample, draw)


def _vary(move: Move, part: str, sample: Any, draw: random.Random) -> Any:
    rule = move.unit.outputs.get(move.name)
    if part == "choice" and rule is not None and rule.choices:
        return draw.choice(rule.choices)
    if isinstance(sample, bool):
        return draw.random() < 0.5
    if isinstance(sample, int):
        return draw.randrange(2)
    return draw.random() if isinstance(sample, float) else sample


def _of_verdict(weights: list[float], argues: int | None, label: int) -> dict[str, float]:
    total = sum(weights)
    if argues is None:
        return {"correct": float(label == weights.index(max(weights))), "score": max(weights)}
    own = weights[argues] / total
    other = max(weight for index, weight in enumerate(weights) if index != argues) / total
    return {
        "margin": math.log(own) - math.log(other),
        "p": own,
        "score": own,
        "won": float(weights[argues] == max(weights)),
        "correct": float(argues == label),
    }
