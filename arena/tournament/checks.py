"""Whether what a tournament file names exists and fits together; all faults are told at once, with their places.

Nothing is built and no model is loaded: that comes after, and so do faults of the tasks themselves (`check_tasks`).
"""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena.arms import arm_faults
from arena.judges import JUDGES
from arena.judging import judge_node
from arena.protocols import Protocol, load_protocol
from arena.protocols.composer import spell
from arena.protocols.documents import Document, KeyPath
from arena.protocols.errors import ConfigError, Fault, SourceError, UnknownNameError, UserError, suggest
from arena.protocols.registry import parse_spec
from arena.scheduling import SCHEDULES, Schedule
from arena.tasks import TASKS
from arena.tournament.arms import ALL_AGENTS, arm_protocol, row_names
from arena.tournament.config import TournamentArm, TournamentConfig
from arena.tournament.covariates import COVARIATES
from arena.tournament.entries import Entry, agent_entries
from arena.tournament.pairing import check_pairing
from arena.tournament.world import World, sprt_of

__all__ = ["check_tasks", "check_tournament"]


def _unfit(name: str, *, without: str) -> str:
    """Why tables and keys of games cannot hold a name; empty where they can.

    Args:
        name: of an agent, arm, judge or protocol.
        without: a sign that stands between names; empty if there is none.
    """
    if not name or name != name.strip():
        return "it is empty, or has a space at an end"
    if not name.isprintable():
        return "it has signs that cannot be printed, such as line ends"
    return f"it has a '{without}', which stands between names" if without and without in name else ""


def check_tournament(config: TournamentConfig, document: Document | None = None) -> None:
    """Refuse a tournament that names what does not exist, whose parts do not fit together, or with keys without effect.

    Args:
        config: of the right shape.
        document: the file that it was read from, for the places of faults.

    Raises:
        SourceError: all faults, those of protocol files that it names included.
    """
    checker = _Checker(config, document)
    checker.check()
    if checker.faults:
        raise SourceError(sorted(dict.fromkeys(checker.faults), key=checker.order))


def check_tasks(world: World) -> None:
    """Whether the tasks are such that they can be played.

    Raises:
        UserError: there are none, one lacks a field, or arms and covariates need labels and there are none.
    """
    config = world.config
    if not world.tasks:
        raise ConfigError(f"'{world.taskset.name}' holds no tasks to play on")
    for protocol in world.protocols.values():
        for task in world.playable:
            protocol.check_task(task)
    for arm in config.arms.values():
        protocol = arm_protocol(arm)
        for task in world.tasks:
            protocol.check_task(task)
    if all(task.label is None for task in world.tasks):
        if config.arms:
            raise ConfigError("arms are measured by the labels of the tasks, and none of these has one: remove 'arms'")
        if "truth" in config.covariates:
            raise ConfigError("the covariate 'truth' needs labels, and none of the tasks has one: remove it")


class _Checker:
    """Collects faults."""

    def __init__(self, config: TournamentConfig, document: Document | None) -> None:
        self.config = config
        self.document = document
        self.faults: list[Fault] = []
        self.entries: dict[str, Entry] = {}

    def check(self) -> None:
        self.agents()
        self.tasks()
        self.protocols()
        self.judges()
        self.schedule()
        for name, arm in self.config.arms.items():
            self.arm(name, arm)
        self.arm_rows()
        self.statistics()

    # -- faults

    def add(self, path: KeyPath, what: str, *, key: bool = False) -> None:
        if self.document is None:
            self.faults.append(Fault(f"tournament '{self.config.tournament}'", 0, 0, spell(path), what))
        else:
            self.faults.append(self.document.fault(path, what, key=key))

    def told(self, path: KeyPath, error: UserError) -> None:
        """A fault of something that the file names; those of other files keep their own places."""
        if isinstance(error, SourceError):
            for fault in error.faults:
                if fault.line:
                    self.faults.append(fault)
                else:
                    self.add(path, f"'{fault.file}': {fault.what}")
        else:
            self.add(path, str(error))

    def named(self, path: KeyPath, name: str, what: str, *, without: str = "") -> None:
        """Refuse a name that tables and keys of games cannot hold."""
        if why := _unfit(name, without=without):
            shown = f"'{name}'" if name.isprintable() else repr(name)
            self.add(path, f"{shown} is not a name of {what}: {why}", key=True)

    def order(self, fault: Fault) -> tuple[bool, str, int, int]:
        """The file's own faults first, in its order."""
        own = self.document is None or fault.file == self.document.file
        return not own, fault.file, fault.line, fault.column

    def given(self, name: str) -> bool:
        """Whether the file says something about a key, be it what holds anyway."""
        return name in self.config.model_fields_set

    # -- who

    def agents(self) -> None:
        for key, value in self.config.agents.items():
            path: KeyPath = ("agents", key)
            try:
                found = agent_entries(key, value)
            except UserError as error:
                self.told(path, error)
                continue
            for entry in found:
                self.named(path, entry.name, "an agent", without="|")
                written = unicodedata.normalize("NFC", entry.name)
                if any(written == unicodedata.normalize("NFC", other) for other in self.entries):
                    self.add(path, f"two agents are called '{entry.name}'", key=True)
                self.entries[entry.name] = entry
                try:
                    entry.check()
                except UserError as error:
                    self.told(path, error)
        if len(self.entries) < 2 and not self.faults:
            self.add(("agents",), "a tournament needs at least two agents", key=True)
        anchor = self.config.anchor
        if anchor is not None and anchor not in self.entries:
            self.add(("anchor",), f"'{anchor}' is not one of the agents.{suggest(anchor, self.entries)}")

    def judges(self) -> None:
        self.judge(("judge",), self.config.judge)
        for name, spec in self.config.judges.items():
            self.named(("judges", name), name, "a judge")
            self.judge(("judges", name), spec)

    def judge(self, path: KeyPath, spec: Any) -> None:
        try:
            JUDGES.check(spec, ("seed",))
        except UserError as error:
            self.told(path, error)

    # -- what

    def tasks(self) -> None:
        spec = self.config.tasks
        if isinstance(spec, str) and spec.endswith(".jsonl") and not spec.startswith("jsonl:"):
            spec = {"kind": "jsonl", "path": spec}
        try:
            TASKS.check(spec, ("seed",))
        except UserError as error:
            self.told(("tasks",), error)
            return
        asked = parse_spec(spec)
        if asked.kind == "jsonl" and not Path(str(asked.args["path"])).is_file():
            self.add(("tasks",), f"there is no file '{asked.args['path']}'")

    def protocols(self) -> None:
        config = self.config
        if config.protocol is None and not config.protocols:
            self.add((), "which protocol? Write protocol: NAME, or protocols: {NAME: {protocol: ...}}", key=True)
        if config.protocol is not None and config.protocols:
            self.add(("protocols",), "there is 'protocol' already: name all of them here, and remove it", key=True)
        if config.protocol is None and self.given("params"):
            self.add(("params",), "of which protocol? Write them under protocols.NAME.params", key=True)
        for name, part in config.played().items():
            where: KeyPath = ("protocols", name) if config.protocol is None else ()
            if where:
                self.named(where, name, "a protocol here", without="/")
            protocol = self.protocol((*where, "protocol"), (*where, "params"), part.protocol, part.params)
            if protocol is not None:
                self.paired(protocol, (*where, "protocol"))

    def protocol(self, path: KeyPath, own: KeyPath, name: str, params: Mapping[str, Any]) -> Protocol | None:
        """A protocol; None after a fault."""
        try:
            return load_protocol(name, params)
        except (SourceError, UnknownNameError) as error:
            self.told(path, error)
        except ConfigError as error:
            blamed = next((param for param in params if f"'{param}'" in str(error)), None)
            self.add(path if blamed is None else (*own, blamed), str(error))
        return None

    def paired(self, protocol: Protocol, path: KeyPath) -> None:
        try:
            check_pairing(protocol)
        except ConfigError as error:
            self.add(path, str(error))
            return
        for entry in self.entries.values():
            try:
                for seat in protocol.seats:
                    entry.spec_of(seat)
            except ConfigError as error:
                self.add(entry.place, str(error))
        if self.config.judges:
            try:
                judge_node(protocol, None)
            except ConfigError as error:
                self.add(("judges",), f"transcripts cannot be judged again: {error}", key=True)

    def schedule(self) -> None:
        spec, schedule = self.config.schedule, None
        try:
            schedule = SCHEDULES.build(spec, names=tuple(self.entries))
        except UserError as error:
            if self.entries:
                self.told(self.argument(("schedule",), error), error)
        sprt = self.config.sprt
        if sprt is None:
            return
        try:
            sprt_of(sprt)
        except ConfigError as error:
            self.add(("sprt",), str(error))
        if schedule is not None:
            self.sequential(schedule)

    def argument(self, path: KeyPath, error: UserError) -> KeyPath:
        """The argument of a spec in the long form that a message is about."""
        spec = self.config.schedule
        names = spec if isinstance(spec, dict) else {}
        return next(((*path, name) for name in names if str(error).startswith(f"'{name}'")), path)

    def sequential(self, schedule: Schedule) -> None:
        kind = parse_spec(self.config.schedule).kind
        if not schedule.static:
            self.add(("sprt",), f"schedule '{kind}' chooses pairings by results itself: remove 'sprt'", key=True)
        elif len(self.config.played()) > 1:
            what = "its unit is one pair of games a task, and several protocols play several: remove it or name one"
            self.add(("sprt",), what, key=True)
        elif self.config.sprt is not None and self.config.sprt.block >= self.config.n:
            what = f"a block of {self.config.sprt.block} tasks is the whole pairing (n is {self.config.n}): take less"
            self.add(("sprt", "block") if self.given("sprt") else ("sprt",), what)

    # -- the truth side

    def arm(self, name: str, arm: TournamentArm) -> None:
        path: KeyPath = ("arms", name)
        self.named(path, name, "an arm", without="/")
        protocol = self.protocol((*path, "protocol"), (*path, "params"), arm.protocol, arm.params)
        known = isinstance(arm.lineup, str) and (arm.lineup in self.entries or arm.lineup == ALL_AGENTS)
        if arm.lineup is not None and not known:
            self.filler((*path, "lineup"), arm.lineup)
        before = list(self.config.arms)[: list(self.config.arms).index(name)]
        if arm.equal_tokens is not None and arm.equal_tokens not in before:
            what = f"'{arm.equal_tokens}' is not an arm that stands above this one.{suggest(arm.equal_tokens, before)}"
            self.add((*path, "equal_tokens"), what)
        if protocol is not None:
            self.arm_of(path, arm, protocol)

    def arm_of(self, path: KeyPath, arm: TournamentArm, protocol: Protocol) -> None:
        for key, what in arm_faults(arm, protocol, f"NAME, {ALL_AGENTS} or an agent"):
            self.add((*path, *key), what, key=key != ("protocol",))
        if arm.equal_tokens is None:
            return
        if "tokens" in arm.params:
            self.add((*path, "params", "tokens"), "equal_tokens sets it: remove one of the two", key=True)
            return
        try:
            arm_protocol(arm, 1000)
        except UserError as error:
            self.add((*path, "equal_tokens"), f"protocol '{protocol.name}' has to have a parameter 'tokens': {error}")

    def filler(self, path: KeyPath, spec: Any) -> None:
        try:
            Entry("", {"*": spec}).check()
        except UnknownNameError:
            kind = parse_spec(spec).kind
            what = f"'{kind}' is neither an agent of this file, nor '{ALL_AGENTS}', nor a known agent."
            self.add(path, what + suggest(kind, [*self.entries, ALL_AGENTS]))
        except UserError as error:
            self.told(path, error)

    def arm_rows(self) -> None:
        """Rows of the table have different names."""
        rows: dict[str, str] = {}
        for name, arm in self.config.arms.items():
            for row in row_names(name, arm, tuple(self.entries)):
                if row in rows:
                    self.add(("arms", name), f"the row '{row}' is made by the arm '{rows[row]}' too", key=True)
                rows[row] = name

    # -- how ratings are made

    def statistics(self) -> None:
        config = self.config
        for number, name in enumerate(config.covariates):
            if name not in COVARIATES:
                what = f"'{name}' is not a known covariate.{suggest(name, COVARIATES.names())}"
                self.add(("covariates", number), what)
            elif name in config.covariates[:number]:
                self.add(("covariates", number), f"'{name}' is named twice")
        for number, online in enumerate(config.online):
            if online in config.online[:number]:
                self.add(("online", number), f"'{online}' is named twice")
        if "openskill" in config.online and importlib.util.find_spec("openskill") is None:
            self.add(("online",), "openskill is not installed: pip install 'debate-arena[ratings]'")
