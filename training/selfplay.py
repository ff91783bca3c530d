"""Self-play: policies play each other under a judge and are moved by KL-constrained policy gradients.

    tasks, judge (trained if the recipe says so)
      -> warm start: supervised fine-tuning on demonstrations of scripted agents         = generation 0
      -> per step:  lineups from the league -> tasks x group episodes -> judge on every prefix -> rewards
                    -> advantages per (role, move, group) -> one update of the objective + beta KL(policy || reference)
      -> per generation: snapshot (a model folder), gate (is it better than the champion?), checkpoint
      -> evaluation on held-out tasks: arms, cross-play of generations, exploitability

A run is a pure function of (recipe, seed) on one thread. It resumes from its last checkpoint.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena.agents.policy import Policy
from arena.engine import AnyAgent, Engine, Plan
from arena.games import game_sampler
from arena.protocols import load_protocol
from arena.protocols.errors import AlarmError, BackendError, ConfigError, UndecidedError
from arena.protocols.records import Episode, Task
from arena.records_json import finite
from arena.rewards import Payoff, pay
from arena.seeds import derive_seed
from arena.training.advantages import assign_advantages
from arena.training.alarms import Alarms
from arena.training.checkpoints import load_checkpoint, save_checkpoint
from arena.training.crediting import Crediting, PaidTurn, Place, paid_turns
from arena.training.demonstrations import sequences_by_policy, sides_drawn, warm_start
from arena.training.gate import Gate
from arena.training.league import League, Matchup, Member, sides_of
from arena.training.learner import Learner
from arena.training.memory import peak_memory_mb
from arena.training.policies import (
    Generation,
    PolicyLoader,
    build_policies,
    freeze,
    policy_agent,
    release,
    save_policy,
    thaw,
)
from arena.training.probes import PROBES, Moment, Probe
from arena.training.self_check import self_check
from arena.training.sequences import TrainingSequence
from arena.training.shaping import shaped
from arena.training.step_facts import Played, step_facts
from arena.training.world import Listener, World, build_agent
from arena.undecided import UndecidedWindow

__all__ = ["Played", "SelfPlay", "Trained"]


@dataclass(frozen=True, slots=True)
class Trained:
    """What training made."""

    generations: list[Generation]
    champion: int
    """Number of the last generation that passed the gate; without a gate, of the last one."""
    kl: list[float]
    """Mean KL to the reference over the last tenth of each generation's steps, nats a turn; generation 0 first, 0."""
    kl_peak: float
    """Largest KL of any step."""
    undecided: list[dict[str, Any]]
    """`arena.undecided.Undecided` of each generation's verdicts; generation 1 first."""
    alarms: list[dict[str, Any]]
    """What `arena.training.alarms` told, in order."""
    seconds: float
    """Wall time of judge, warm start and self-play."""


class SelfPlay:
    """One training run.

    Args:
        world: tasks and judge.
        out: run directory; generations, members of the league, metrics and checkpoints go there.
        on_event: receives progress.
        start: begin from this snapshot instead of base weights and warm start.
        keep: receives the rows of metrics by number, at each checkpoint those since the one before; a resumed run
            gives all of them again.
    """

    def __init__(
        self,
        world: World,
        out: Path,
        on_event: Listener,
        *,
        start: Generation | None = None,
        keep: Callable[[Mapping[int, Any]], None] | None = None,
    ) -> None:
        self.world = world
        self.keep = keep
        self.start = start
        self.recipe = world.recipe
        self.config = world.recipe.self_play
        self.out = out
        self.on_event = on_event
        self.protocol = load_protocol(self.recipe.protocol, self.recipe.params)
        self.speakers = self.protocol.speakers
        self.policies = build_policies(self.recipe, world.seed, start)
        self.agents = {
            name: policy_agent(policy.id, policy, self.recipe.policies[name]) for name, policy in self.policies.items()
        }
        self.fixed = {
            role: build_agent(self.recipe.filler_of(role), world)
            for role in self.speakers
            if self.recipe.policy_of(role) is None
        }
        self.claims = {node.name: node.role.seat for node in self.protocol.nodes.values() if node.claims}
        """Nodes whose speakers choose what they argue, and who speaks there."""
        self.trained = [role for role in self.speakers if self.recipe.policy_of(role) is not None]
        self.by_id = {task.id: task for task in world.tasks.train}
        gate = self.config.gate
        held = gate.tasks if gate is not None else 0
        if held >= len(world.tasks.train):
            raise ConfigError(
                f"self_play.gate.tasks keeps {held} of the {len(world.tasks.train)} training tasks from training: "
                "lower it, or give more tasks"
            )
        kept = world.tasks.train[len(world.tasks.train) - held :]
        questions = {task.cluster for task in kept}
        self.tasks: Sequence[Task] = [task for task in world.tasks.train if task.cluster not in questions]
        """To train on: no question of the gate is among them."""
        if not self.tasks:
            raise ConfigError("every training question is one of the gate's: lower self_play.gate.tasks")
        self.gate = None if gate is None else Gate(gate, self.protocol, world, kept)
        anchors = [Member(agent.name, dict.fromkeys(self.trained, agent)) for agent in self._anchors()]
        self.league = League(self.config.league, sides_of(self.config.league, self.trained), anchors)
        self.credit = Crediting(self.config.credit, {role: self.protocol.roles[role].group for role in self.trained})
        self.probes: dict[str, Probe] = {
            name: PROBES.build(probe.spec, seed=derive_seed(world.seed, "probe", name) % 2**31)
            for name, probe in self.config.probes.items()
        }
        self.alarms = Alarms(self.config.alarms, ["gen0", *(member.name for member in anchors)])
        others = [*self.fixed.values(), *(agent for member in anchors for agent in member.agents.values())]
        self.sampler = game_sampler(
            self.protocol, [*self.agents.values(), *others], seed=derive_seed(world.seed, "rollout")
        )
        """Plays a small game as the engine would, at the cost of its draws; None for other protocols."""
        self.step = 0
        """Optimizer steps taken, over all generations."""
        self.generations: list[Generation] = []
        self.champion = 0
        self.kl: list[float] = []
        self.kl_peak = 0.0
        self.undecided: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.already = 0.0
        """Seconds spent before a resume."""
        self._kept = (0, 0)
        """Rows and bytes of metrics that were given to ``keep``."""
        self._members: dict[str, dict[str, Policy]] = {}
        """Frozen policies of each member of the league."""
        self._kls: list[float] = []
        """Of this generation's steps."""
        self._window = UndecidedWindow(self._most_undecidable())
        self._champions: dict[str, Any] | None = None
        """States of the learners when the champion was promoted, to go back to."""

    def run(self, *, resume: bool = False, started: float | None = None) -> Trained:
        """Train, or go on from the last checkpoint.

        Args:
            resume: go on, if there is a checkpoint.
            started: `time.perf_counter` of what counts as the beginning; None: now.
        """
        started = time.perf_counter() if started is None else started
        checkpoint = self.out / "checkpoint.pt"
        learners = self._learners()
        if resume and checkpoint.is_file():
            self._restore(checkpoint, learners)
        else:
            self._begin(learners)
            self._save(checkpoint, learners, started)
        while self.step < self.config.generations * self.config.steps:
            alarms = self._step(learners)
            ended = self.step % self.config.steps == 0
            if ended:
                self._end_generation(learners)
            every = self.config.checkpoint_every
            if ended or (every is not None and self.step % every == 0):
                self._save(checkpoint, learners, started)
            if stop := [alarm for alarm in alarms if alarm["alarm"] in self.config.alarms.stop]:
                self._save(checkpoint, learners, started)
                raise AlarmError(
                    f"step {self.step}: alarm {stop[0]['alarm']}: {stop[0]['why']} (self_play.alarms.stop); go on "
                    "all the same by --resume"
                )
        self._keep()
        champion = self.champion if self.gate is not None else self.config.generations
        return Trained(
            self.generations, champion, self.kl, self.kl_peak, self.undecided, self.alarms.told, self.seconds
        )

    def _begin(self, learners: Mapping[str, Learner]) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "metrics.jsonl").write_text("")
        warm = self.recipe.warm_start
        if warm is not None and warm.steps > 0 and self.start is None:
            warm_start(warm, self.world, self.policies, self._log)
            for name in self.policies:
                self._publish(name)
        for learner in learners.values():
            learner.set_reference(adapter_off=self.config.reference.at == "base")
            learner.remember("start")
        self._check(learners)
        self._snapshot(0)
        if self.league.needed or self.config.league.snapshot_every is not None:
            self._join(self.generations[0].name)
        if self.config.gate is not None and self.config.gate.fail == "revert":
            self._champions = {name: learner.state_dict() for name, learner in learners.items()}
        self._probe(ends=True)

    def _learners(self) -> dict[str, Learner]:
        return {
            name: Learner(
                policy.model,
                self.config.learner,
                seed=derive_seed(self.world.seed, "learner", name) % 2**31,
                adapter=policy.adapter,
                critic=any(self.credit.asks_critic(r) for r in self.trained if self.recipe.policy_of(r) == name),
            )
            for name, policy in self.policies.items()
        }

    def _anchors(self) -> list[AnyAgent]:
        return [build_agent(spec, self.world) for spec in self.config.league.anchors]

    def _most_undecidable(self) -> float:
        return 1.0 if self.recipe.judge is None else self.recipe.judge.max_undecidable

    # -- one step -----------------------------------------------------------------------------------------------

    def rollouts(self, step: int) -> Played:
        """The episodes of one optimizer step (0-based): ``tasks`` groups of ``group`` episodes, group after group."""
        drawn = np.random.default_rng(derive_seed(self.world.seed, "league", step))
        return self._play(step, self.league.matchups(self.config.tasks, drawn, step // self.config.steps + 1))

    def _play(self, step: int, matchups: list[Matchup]) -> Played:
        config, seed = self.config, self.world.seed
        rng = np.random.default_rng(derive_seed(seed, "tasks", step))
        chosen = rng.choice(len(self.tasks), size=config.tasks, replace=len(self.tasks) < config.tasks)
        flips = rng.integers(0, 2, size=config.tasks)
        lineups: dict[Any, dict[str, AnyAgent]] = {}  # who sits alike is asked together
        plans = []
        for group, (index, flip) in enumerate(zip(chosen, flips, strict=True)):
            task = self.tasks[int(index)]
            sides = sides_drawn(task, bool(flip))
            matchup = matchups[group]
            key = (matchup.side, None if matchup.member is None else matchup.member.name)
            if key not in lineups:
                lineups[key] = self._lineup(matchup)
            lineup = lineups[key]
            plans += [Plan(f"{step}/{group}/{sample}", task, lineup, sides) for sample in range(config.group)]
        groups = [group for group in range(config.tasks) for _ in range(config.group)]
        if self.sampler is not None:
            return Played(self.sampler.play(plans), groups, matchups)
        engine = Engine(
            self.protocol, self.world.judge, seed=derive_seed(seed, "rollout"), judging=False, concurrency=len(plans)
        )
        return Played(engine.play(plans), groups, matchups)

    def _lineup(self, matchup: Matchup) -> dict[str, AnyAgent]:
        lineup: dict[str, AnyAgent] = {}
        for role in self.speakers:
            name = self.recipe.policy_of(role)
            if name is None:
                lineup[role] = self.fixed[role]
            elif matchup.member is None or role in matchup.side:
                lineup[role] = self.agents[name]
            else:
                lineup[role] = matchup.member.agents[role]
        return lineup

    def _publish(self, name: str) -> None:
        """The weights have changed: what is sampled from now on carries a new version."""
        self.agents[name].name = self.policies[name].publish()

    def _step(self, learners: Mapping[str, Learner]) -> list[dict[str, Any]]:
        """One update of every policy; returns the alarms that rang."""
        config, started = self.config, time.perf_counter()
        number = self.step // config.steps + 1
        self._refer(learners)
        played = self.rollouts(self.step)
        payoffs = (
            pay(self.protocol, self.world.judge, played.episodes, self.by_id)
            if self.sampler is None
            else self.sampler.pay(played.episodes)
        )
        self._score(played, payoffs)
        done = time.perf_counter()
        facts = step_facts(
            played, payoffs, self.protocol, self.by_id, trained=self.trained, claims_by=self.claims.values()
        )
        facts |= {f"win_rate/{name}": rate for name, rate in self.league.win_rates().items()}
        row: dict[str, Any] = {
            "phase": "self-play",
            "generation": number,
            "step": self.step % config.steps + 1,
            "of": config.steps,
            **facts,
        }
        self._check_decided(played.episodes, payoffs, row)
        turns = paid_turns(played.episodes, payoffs, played.groups, played.sides(), self.protocol.seats, self.claims)
        if not turns:
            raise BackendError(
                f"generation {number}, step {row['step']}: no turn could be paid; {_causes(played.episodes, payoffs)}"
            )
        by_policy = self._credited(played, turns, learners, row)
        kls = []
        for name, learner in learners.items():
            own = by_policy[name]
            if not own:  # none of its turns was paid, or all of them alike where the objective leaves these out
                continue
            last = (self.step + 1) % config.steps == 0
            metrics = self._drift(learner, own) if last or self.step % config.kl_every == 0 else {}
            metrics |= learner.update(own)
            self._publish(name)
            if "kl_per_turn" in metrics:
                kls.append(metrics["kl_per_turn"])
            row |= metrics if len(learners) == 1 else {f"{name}/{key}": value for key, value in metrics.items()}
        if kls:
            self._kls.append(sum(kls) / len(kls))
            self.kl_peak = max(self.kl_peak, *kls)
        seconds = time.perf_counter() - started
        row |= {"play_seconds": done - started, "update_seconds": time.perf_counter() - done}
        row["tokens_per_second"] = facts["sampled_tokens"] / max(seconds, 1e-9)
        row |= {"seconds_per_step": seconds, "peak_memory_mb": peak_memory_mb()}
        self.step += 1
        self._log(row)
        alarms = self.alarms.look(self.step, row)
        for alarm in alarms:
            self._log({"phase": "alarm", "generation": number, **alarm})
        every = config.league.snapshot_every
        if every is not None and self.step % every == 0:
            name = f"step{self.step}"
            for policy in self.policies:
                save_policy(self.policies[policy], self._member(name) / policy)
            self._join(name)
        if self.step < config.generations * config.steps:
            self._probe()
        return alarms

    def _refer(self, learners: Mapping[str, Learner]) -> None:
        """Move the reference where the recipe says so, before the step."""
        config, first = self.config.reference, self.step % self.config.steps == 0
        moves = {
            "generation": first and self.step > 0,
            "steps": config.every is not None and self.step > 0 and self.step % config.every == 0,
        }
        for learner in learners.values():
            if moves.get(config.at, False):
                learner.set_reference()
            if first:
                learner.remember("generation")

    def _score(self, played: Played, payoffs: Sequence[Payoff]) -> None:
        """Tell the league who won against its members: the side that was paid more."""
        for episode, group, payoff in zip(played.episodes, played.groups, payoffs, strict=True):
            matchup = played.matchups[group]
            if matchup.member is None:
                continue
            paid = [(turn.role, r) for turn, r in zip(episode.turns, payoff.rewards, strict=True) if r is not None]
            ours = [reward for role, reward in paid if role in matchup.side]
            theirs = [reward for role, reward in paid if role in self.trained and role not in matchup.side]
            if ours and theirs:
                difference = sum(ours) / len(ours) - sum(theirs) / len(theirs)
                self.league.record(matchup, 0.5 if difference == 0 else float(difference > 0))

    def _credited(
        self, played: Played, turns: Sequence[PaidTurn], learners: Mapping[str, Learner], row: dict[str, Any]
    ) -> dict[str, list[TrainingSequence]]:
        """Training sequences of each policy, with the advantages of the recipe's objective and credit; ``row`` is told
        how many paid turns the objective leaves out, if it may."""
        sides = {episode.key: side for episode, side in zip(played.episodes, played.sides(), strict=True)}
        own = {
            name: [sequence for sequence in sequences if sequence.role in sides[sequence.episode]]
            for name, sequences in sequences_by_policy(self.recipe, played.episodes).items()
        }
        paid = [
            turn
            for name, learner in learners.items()
            for turn in shaped([t for t in turns if self.recipe.policy_of(t.role) == name], own[name], learner)
        ]
        if any(learner.config.objective.mixed_only for learner in learners.values()):
            row["left_out_turns"] = float(len(turns) - len(paid))
        by_turn = self.credit(paid, [sequence for sequences in own.values() for sequence in sequences])
        if self.config.shuffle_advantages:
            rng = np.random.default_rng(derive_seed(self.world.seed, "shuffle", self.step))
            by_turn = dict(zip(by_turn, rng.permutation(list(by_turn.values())).tolist(), strict=True))
        places = {turn.place for turn in paid}
        found = {}
        for name, sequences in own.items():
            found[name] = [kept for sequence in sequences if (kept := _paid(sequence, places)).positions]
            assign_advantages([s for s in found[name] if not self.credit.asks_critic(s.role)], by_turn)
        self._by_critic(paid, found, learners)
        return found

    def _by_critic(
        self,
        paid: Sequence[PaidTurn],
        sequences: Mapping[str, Sequence[TrainingSequence]],
        learners: Mapping[str, Learner],
    ) -> None:
        """Advantages of tokens whose role's credit asks a critic, as it is before the update."""
        own = {name: [s for s in each if self.credit.asks_critic(s.role)] for name, each in sequences.items()}
        asked = [sequence for each in own.values() for sequence in each]
        if not asked:
            return
        values = [row for name, each in own.items() if each for row in learners[name].values(each)]
        self.credit.by_critic(paid, asked, values)
        if self.config.shuffle_advantages:
            rng = np.random.default_rng(derive_seed(self.world.seed, "shuffle tokens", self.step))
            shuffled = iter(rng.permutation([value for s in asked for value in s.advantages]).tolist())
            for sequence in asked:
                sequence.advantages = [next(shuffled) for _ in sequence.positions]

    def _drift(self, learner: Learner, sequences: Sequence[TrainingSequence]) -> dict[str, float]:
        """How far each role has moved since the beginning and in this generation, in nats a turn."""
        found: dict[str, float] = {}
        for role in dict.fromkeys(sequence.role for sequence in sequences):
            spoken = [sequence for sequence in sequences if sequence.role == role]
            turns = sum(sequence.turn_count() for sequence in spoken)
            for name in ("start", "generation"):
                found[f"kl_to_{name}/{role}"] = learner.kl_to(name, spoken) / turns
        return found

    def _check_decided(self, episodes: Sequence[Episode], payoffs: Sequence[Payoff], row: dict[str, Any]) -> None:
        """Count what the judge could not decide in this step, and say so in ``row``.

        Raises:
            UndecidedError: it is too much; the row is logged.
        """
        pairs = zip(episodes, payoffs, strict=True)
        verdicts = [payoff.verdict for episode, payoff in pairs if episode.error is None and payoff.verdict is not None]
        found = self._window.add(verdicts)
        if why := Counter(str(verdict.status) for verdict in verdicts if not verdict.decidable):
            row["undecidable_by"] = dict(why)
        if found.too_many:
            self._log(row)
            raise UndecidedError(
                f"generation {row['generation']}, step {row['step']}: too many verdicts cannot be used "
                f"(judge.max_undecidable is {found.limit:g}): {found}. Take another judge or mend what it is asked; or "
                "raise the limit (judge.max_undecidable=...), and go on from the last checkpoint by --resume"
            )

    # -- generations --------------------------------------------------------------------------------------------

    def _end_generation(self, learners: Mapping[str, Learner]) -> None:
        number = self.step // self.config.steps
        self.undecided.append(asdict(self._window.all.found))
        self._window = UndecidedWindow(self._most_undecidable())
        tail = self._kls[-max(1, len(self._kls) // 10) :] or self.kl[-1:]
        self.kl.append(sum(tail) / len(tail))
        self._kls = []
        self._snapshot(number)
        self._pass_gate(number, learners)
        if self.league.needed and self.config.league.snapshot_every is None:
            self._join(self.generations[number].name)
        if number == self.config.generations:
            self._probe(ends=True)

    def _pass_gate(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Let the new generation play the champion; one that does not pass is no champion, and may be taken back."""
        if self.gate is None:
            return
        loader = PolicyLoader(self.recipe, self.world.seed)
        pair = [self.generations[self.champion], self.generations[number]]
        lineups = {}
        for generation in pair:
            policies = loader.load(generation, suffix=f"-{generation.name}")
            agents = {name: policy_agent(name, policy, self.recipe.policies[name]) for name, policy in policies.items()}
            lineups[generation.name] = {
                role: self.fixed[role] if name is None else agents[name]
                for role in self.protocol.seats
                for name in [self.recipe.policy_of(role)]
            }
        result = self.gate.test(pair[0].name, pair[1].name, lineups)
        self._log({"phase": "gate", "generation": number, **result.row()})
        if result.promoted:
            self.champion = number
            if self._champions is not None:
                self._champions = {name: learner.state_dict() for name, learner in learners.items()}
        elif self._champions is not None:
            for name, learner in learners.items():
                learner.load_state_dict(self._champions[name])
                self._publish(name)

    def _check(self, learners: Mapping[str, Learner]) -> None:
        """Step-0 self-check on freshly sampled episodes; fails closed."""
        by_policy = sequences_by_policy(self.recipe, self._mirror().episodes)
        for name, learner in learners.items():
            sequences = by_policy[name]
            for sequence in sequences:
                sequence.advantages = [1.0] * len(sequence.positions)
            report = self_check(learner, sequences, reference_is_policy=self.config.reference.at != "base")
            self._log({"phase": "self-check", "policy": name, **report})

    def _mirror(self) -> Played:
        """The first step's episodes, all roles by the policies in training."""
        everybody = frozenset(self.trained)
        return self._play(0, [Matchup("mirror", everybody, None)] * self.config.tasks)

    def _snapshot(self, number: int) -> None:
        versions = {name: policy.version for name, policy in self.policies.items()}
        generation = Generation(number, self._folders(number), versions)
        for name, policy in self.policies.items():
            save_policy(policy, generation.folders[name])
        self.generations.append(generation)
        if number == 0:
            self.kl.append(0.0)
        self.on_event({"event": "generation", "generation": number})

    def _folders(self, number: int) -> dict[str, Path]:
        return {name: self.out / "generations" / f"gen{number}" / name for name in self.policies}

    def _join(self, name: str) -> None:
        """The policies as they are become a member of the league, whose folder has been written."""
        self._take_in(name, {policy: freeze(self.policies[policy]) for policy in self.policies})

    def _take_in(self, name: str, frozen: dict[str, Policy]) -> Member:
        agents = {
            policy: policy_agent(f"{policy}@{name}", copy, self.recipe.policies[policy])
            for policy, copy in frozen.items()
        }
        member = Member(name, {role: agents[str(self.recipe.policy_of(role))] for role in self.trained})
        self._members[name] = frozen
        for gone in self.league.add(member):
            leaving = self._members.pop(gone.name)
            # Of a policy that did not move in between, two members share the copy.
            held = {copy.adapter for copies in self._members.values() for copy in copies.values()}
            for policy in leaving.values():
                if policy.adapter not in held:
                    release(policy)
        return member

    def _probe(self, *, ends: bool = False) -> None:
        """Look, where it is time to."""
        for name, probe in self.probes.items():
            every = self.config.probes[name].every
            if ends or (every is not None and self.step % every == 0):
                now = Moment(self.world.measuring(), self.protocol, self.policies, self.league, self.step)
                self._log({"phase": "probe", "probe": name, "at": self.step, **_known(probe.measure(now))})

    # -- going on ----------------------------------------------------------------------------------------------

    def _save(self, path: Path, learners: Mapping[str, Learner], started: float) -> None:
        self.seconds = self.already + time.perf_counter() - started
        state = {
            "step": self.step,
            "versions": {name: policy.version for name, policy in self.policies.items()},
            "generations": [dict(generation.versions) for generation in self.generations],
            "champion": self.champion,
            "champions": self._champions,
            "league": self.league.state_dict(),
            "members": {name: {p: c.version for p, c in copies.items()} for name, copies in self._members.items()},
            "credit": self.credit.state_dict(),
            "alarms": self.alarms.state_dict(),
            "kl": self.kl,
            "kls": self._kls,
            "kl_peak": self.kl_peak,
            "window": self._window.state_dict(),
            "undecided": self.undecided,
            "seconds": self.seconds,
            "learners": {name: learner.state_dict() for name, learner in learners.items()},
            "metrics_bytes": (self.out / "metrics.jsonl").stat().st_size,
        }
        save_checkpoint(path, state)
        self._keep()
        if self.sampler is not None:
            self.sampler.forget()  # as a resumed run will have

    def _restore(self, path: Path, learners: Mapping[str, Learner]) -> None:
        state = load_checkpoint(path)
        for name, learner in learners.items():
            learner.load_state_dict(state["learners"][name])
            self.policies[name].version = state["versions"][name] - 1
            self._publish(name)
        self.step, self.champion, self._champions = state["step"], state["champion"], state["champions"]
        self.kl, self.kl_peak, self.seconds = list(state["kl"]), state["kl_peak"], state["seconds"]
        self._kls = list(state["kls"])
        self.undecided = list(state["undecided"])
        self._window.load_state_dict(state["window"])
        self.credit.load_state_dict(state["credit"])
        self.alarms.load_state_dict(state["alarms"])
        self.already = self.seconds
        for number, versions in enumerate(state["generations"]):
            self.generations.append(Generation(number, self._folders(number), versions))
        members = {}
        for name, versions in state["members"].items():
            frozen = {p: thaw(self.policies[p], self._member(name) / p, version) for p, version in versions.items()}
            members[name] = self._take_in(name, frozen)
        self.league.load_state_dict(state["league"], members)
        with (self.out / "metrics.jsonl").open("r+b") as stream:
            stream.truncate(state["metrics_bytes"])

    def _member(self, name: str) -> Path:
        """Folder of a member of the league: a generation's, or one of its own."""
        return self.out / ("generations" if name.startswith("gen") else "league") / name

    def _keep(self) -> None:
        """Give away the rows of metrics that are new."""
        if self.keep is None:
            return
        rows, at = self._kept
        with (self.out / "metrics.jsonl").open("rb") as stream:
            stream.seek(at)
            new = [json.loads(line) for line in stream]
            self._kept = (rows + len(new), stream.tell())
        self.keep(dict(enumerate(map(finite, new), rows)))

    def _log(self, row: dict[str, Any]) -> None:
        with (self.out / "metrics.jsonl").open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        self.on_event({"event": "phase", **row})


def _known(measured: Mapping[str, float]) -> dict[str, float | None]:
    """For JSON, which has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in measured.items()}


def _paid(sequence: TrainingSequence, paid: Collection[Place]) -> TrainingSequence:
    """The sequence without the tokens of turns that no decidable verdict paid for: context, but not trained."""
    kept = [i for i, turn in enumerate(sequence.turns) if (sequence.episode, sequence.role, turn) in paid]
    if len(kept) == len(sequence.turns):
        return sequence
    logps = sequence.logps
    return replace(
        sequence,
        positions=[sequence.positions[i] for i in kept],
        turns=[sequence.turns[i] for i in kept],
        logps=None if logps is None else [logps[i] for i in kept],
        allowed={number: sequence.allowed[i] for number, i in enumerate(kept) if i in sequence.allowed},
    )


def _causes(episodes: Sequence[Episode], payoffs: Sequence[Payoff]) -> str:
    """Why turns were not paid: the commonest failures of episodes and reasons of verdicts."""
    reasons = Counter(episode.error for episode in episodes if episode.error is not None)
    for payoff in payoffs:
        if payoff.verdict is not None and not payoff.verdict.decidable:
            reasons[f"verdict {payoff.verdict.status}: {payoff.verdict.evidence.get('reason', 'no reason given')}"] += 1
    return "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3)) or "no reward pays a kept turn"
