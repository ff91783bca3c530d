"""Self-play: policies play each other under a judge and are moved by KL-constrained policy gradients.

    tasks, judge (trained if the recipe says so)
      -> warm start: supervised fine-tuning on demonstrations of scripted agents         = generation 0, the reference
      -> per step:  tasks x group episodes -> judge on every prefix -> rewards -> advantages per (role, turn, group)
                    -> one optimizer step of the objective + beta KL(policy || reference)
      -> per generation: snapshot (a model folder), checkpoint
      -> evaluation on held-out tasks: arms, cross-play of generations, exploitability

A run is a pure function of (recipe, seed) on one thread. It resumes from its last finished generation.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena.agents import AGENTS
from arena.agents.models import add_lora, load_model, open_model
from arena.agents.policy import Policy, PolicyAgent
from arena.agents.types import Agent
from arena.engine import Engine, Plan
from arena.judges.types import Judge
from arena.protocols import load_protocol
from arena.protocols.errors import ArenaError, BackendError, ConfigError, UndecidedError
from arena.protocols.records import Episode, Sampling, Task
from arena.rewards import Payoff, pay
from arena.running import bad_quote_share, exchanged
from arena.seeds import derive_seed
from arena.tasks import TaskSet, open_tasks
from arena.training.advantages import assign_advantages, credit
from arena.training.checkpoints import load_checkpoint, save_checkpoint
from arena.training.judge_training import build_judge
from arena.training.learner import Learner
from arena.training.recipe import DemonstrationSource, JudgeRecipe, PolicyRecipe, Recipe
from arena.training.self_check import self_check
from arena.training.sequences import TrainingSequence, sequences_of
from arena.undecided import UndecidedWindow

__all__ = ["Generation", "Listener", "SelfPlay", "Trained", "World", "build_world"]

Listener = Callable[[dict[str, Any]], None]
"""Receives progress: ``{"event": "phase", "phase": ..., "step": ..., "of": ..., ...metrics}``."""


@dataclass(frozen=True, slots=True)
class World:
    """What a recipe's policies are trained and measured on."""

    recipe: Recipe
    seed: int
    tasks: TaskSet
    judge: Judge
    """Who rewards."""
    judge_report: Mapping[str, float]
    """Held-out figures of the judge's training; empty for a judge that was not trained."""
    measures: Judge
    """Who measures: another instrument, unless the recipe says ``same_judge``."""
    measures_report: Mapping[str, float]
    """The same of the judge that measures."""

    def measuring(self) -> World:
        """The world as it is measured: whatever asks for its judge gets the one that measures."""
        return replace(self, judge=self.measures, judge_report=self.measures_report)


def build_world(recipe: Recipe, seed: int, on_event: Listener) -> World:
    """Tasks and judges of a recipe; judges are trained first if the recipe says so.

    Raises:
        ConfigError: tasks that are trained on would be tested on, or the judge that rewards is the one that measures.
    """
    tasks = open_tasks(recipe.tasks, seed=seed)
    if shared := {task.cluster for task in tasks.train} & {task.cluster for task in tasks.test}:
        raise ConfigError(
            f"{len(shared)} questions of '{tasks.name}' would be trained on and tested on, such as '{min(shared)}'; "
            f"hold some out: tasks: {{kind: jsonl, path: FILE, held_out: 0.2}}"
        )

    def built(config: JudgeRecipe, stream: str) -> tuple[Judge, Mapping[str, float]]:
        def progress(step: int, of: int, metrics: Mapping[str, float]) -> None:
            on_event({"event": "phase", "phase": stream, "step": step, "of": of, **metrics})

        numbered = derive_seed(seed, stream) % 2**31
        return build_judge(config.kind, config.args, config.train, tasks, seed=numbered, progress=progress)

    judge, report = built(recipe.judge, "judge")
    measures, measures_report = judge, report
    if recipe.evaluation.judge is not None:
        measures, measures_report = built(recipe.evaluation.judge, "evaluation judge")
        if measures.name == judge.name:
            raise ConfigError(
                f"evaluation.judge is {judge.name}, the very instrument that rewards training: name another one, or "
                "remove it and write evaluation.same_judge: true"
            )
    if recipe.distractors is not None:
        wanted, draw = recipe.distractors, derive_seed(seed, "distractors") % 2**31
        # Each judge is given the wrong answers that it finds credible itself.
        learned = tasks.with_distractors(judge, train=wanted.train, test=wanted.test, seed=draw)
        tested = tasks.with_distractors(measures, train=wanted.train, test=wanted.test, seed=draw)
        tasks = TaskSet(tasks.name, learned.train, tested.test)
    return World(recipe, seed, tasks, judge, report, measures, measures_report)


def policy_agent(name: str, policy: Policy, recipe: PolicyRecipe) -> PolicyAgent:
    """The agent that samples from a policy as its recipe says."""
    return policy.agent(Sampling(temperature=recipe.temperature), recipe.max_tokens, name)


@dataclass(frozen=True, slots=True)
class Generation:
    """A snapshot of all policies."""

    number: int
    folders: Mapping[str, Path]
    """Policy name -> model folder."""
    versions: Mapping[str, int]
    """Policy name -> version of its weights: how often it had been updated."""

    @property
    def name(self) -> str:
        """``gen3``."""
        return f"gen{self.number}"

    def lineup(self, recipe: Recipe, roles: Sequence[str], world: World) -> dict[str, Agent]:
        """Agents of this generation, named after it, in ``roles``; roles without a policy get their agent."""
        built: dict[str, Agent] = {}
        lineup: dict[str, Agent] = {}
        for role in roles:
            name = recipe.policy_of(role)
            if name is None:
                lineup[role] = build_agent(recipe.filler_of(role), world)
                continue
            if name not in built:
                policy = Policy(name, load_model(self.folders[name]), self.versions[name])
                built[name] = policy_agent(self.name, policy, recipe.policies[name])
            lineup[role] = built[name]
        return lineup


@dataclass(frozen=True, slots=True)
class Trained:
    """What training made."""

    generations: list[Generation]
    kl: list[float]
    """Mean KL to the reference over the last tenth of each generation's steps, nats a turn; generation 0 first, 0."""
    kl_peak: float
    """Largest KL of any step."""
    undecided: list[dict[str, Any]]
    """`arena.undecided.Undecided` of each generation's verdicts; generation 1 first."""
    seconds: float
    """Wall time of judge, warm start and self-play."""


def build_agent(spec: str | Mapping[str, Any], world: World) -> Agent:
    """An agent that is not trained, given the tasks and the judge if its kind asks for them."""
    return AGENTS.build(spec, tasks=world.tasks, judge=world.judge, seed=world.seed)


class SelfPlay:
    """One training run.

    Args:
        world: tasks and judge.
        out: run directory; generations, metrics and checkpoints go there.
        on_event: receives progress.
        start: begin from this snapshot instead of base weights and warm start.
    """

    def __init__(self, world: World, out: Path, on_event: Listener, *, start: Generation | None = None) -> None:
        self.world = world
        self.start = start
        self.recipe = world.recipe
        self.out = out
        self.on_event = on_event
        self.protocol = load_protocol(self.recipe.protocol, self.recipe.params)
        self.speakers = self.protocol.speakers
        seed = world.seed
        self.policies = {
            name: _build_policy(name, config, seed, start) for name, config in self.recipe.policies.items()
        }
        self.agents = {
            name: policy_agent(policy.id, policy, self.recipe.policies[name]) for name, policy in self.policies.items()
        }
        self.fixed = {
            role: build_agent(self.recipe.filler_of(role), world)
            for role in self.speakers
            if self.recipe.policy_of(role) is None
        }
        self.trained = {role for role in self.speakers if self.recipe.policy_of(role) is not None}
        self.by_id = {task.id: task for task in world.tasks.train}
        self.generations: list[Generation] = []
        self.kl: list[float] = []
        self.kl_peak = 0.0
        self.undecided: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.already = 0.0
        """Seconds spent before a resume."""

    def run(self, *, resume: bool = False, started: float | None = None) -> Trained:
        """Train, or go on from the last finished generation.

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
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / "metrics.jsonl").write_text("")
            self.warm_start()
            for learner in learners.values():
                learner.set_reference()
            self._check(learners)
            self._snapshot(0)
            self._save(checkpoint, learners, started)
        done = len(self.generations) - 1
        for number in range(done + 1, self.recipe.self_play.generations + 1):
            self._generation(number, learners)
            self._snapshot(number)
            self._save(checkpoint, learners, started)
        return Trained(self.generations, self.kl, self.kl_peak, self.undecided, self.seconds)

    def _learners(self) -> dict[str, Learner]:
        config = self.recipe.self_play.learner
        return {
            name: Learner(policy.model, config, seed=derive_seed(self.world.seed, "learner", name) % 2**31)
            for name, policy in self.policies.items()
        }

    # -- warm start ---------------------------------------------------------------------------------------------

    def warm_start(self) -> None:
        """Supervised fine-tuning on demonstrations, each encoded as the policy would have seen and said it."""
        config = self.recipe.warm_start
        if config is None or config.steps == 0 or self.start is not None:
            return
        seed = self.world.seed
        learners = {
            name: Learner(policy.model, config.learner, seed=derive_seed(seed, "sft", name) % 2**31)
            for name, policy in self.policies.items()
        }
        stages = [
            _Demonstration(mix, self, seed=derive_seed(seed, "demonstration", i))
            for i, mix in enumerate(config.demonstrations)
        ]
        counts = _shares([mix.share for mix in config.demonstrations], config.tasks)
        batches: dict[int, dict[str, list[TrainingSequence]]] = {}
        fresh = config.fresh or config.steps
        for step in range(config.steps):
            if step % fresh not in batches:
                played = zip(stages, counts, strict=True)
                episodes = [e for stage, count in played for e in stage.play(step, count, config.group)]
                batches[step % fresh] = {
                    name: self._sequences(episodes, name, demonstrations=True) for name in learners
                }
            for name, learner in learners.items():
                metrics = learner.sft(batches[step % fresh][name])
                if step % 20 == 0 or step == config.steps - 1:
                    self._log({"phase": "warm start", "policy": name, "step": step + 1, "of": config.steps, **metrics})
        for name in self.policies:
            self._publish(name)

    def _sequences(
        self, episodes: Sequence[Episode], policy: str, *, demonstrations: bool = False
    ) -> list[TrainingSequence]:
        found = []
        thinking = self.recipe.policies[policy].train_thinking
        for episode in episodes:
            roles = {role for role in episode.lineup if self.recipe.policy_of(role) == policy}
            found += sequences_of(episode, roles, demonstrations=demonstrations, train_thinking=thinking)
        return found

    # -- self-play ----------------------------------------------------------------------------------------------

    def rollouts(self, generation: int, step: int) -> list[Episode]:
        """The episodes of one optimizer step: ``tasks`` groups of ``group`` episodes, group after group."""
        config, seed = self.recipe.self_play, self.world.seed
        number = (generation - 1) * config.steps + step
        rng = np.random.default_rng(derive_seed(seed, "tasks", number))
        chosen = rng.choice(
            len(self.world.tasks.train), size=config.tasks, replace=len(self.world.tasks.train) < config.tasks
        )
        flips = rng.integers(0, 2, size=config.tasks)
        lineup = self._lineup()
        plans = []
        for group, (index, flip) in enumerate(zip(chosen, flips, strict=True)):
            task = self.world.tasks.train[int(index)]
            sides = _sides(task, bool(flip))
            plans += [Plan(f"{number}/{group}/{sample}", task, lineup, sides) for sample in range(config.group)]
        engine = Engine(
            self.protocol, self.world.judge, seed=derive_seed(seed, "rollout"), judging=False, concurrency=len(plans)
        )
        return engine.play(plans)

    def _lineup(self) -> dict[str, Agent]:
        lineup: dict[str, Agent] = {}
        for role in self.speakers:
            name = self.recipe.policy_of(role)
            lineup[role] = self.fixed[role] if name is None else self.agents[name]
        return lineup

    def _publish(self, name: str) -> None:
        """The weights have changed: what is sampled from now on carries a new version."""
        self.agents[name].name = self.policies[name].publish()

    def _generation(self, number: int, learners: Mapping[str, Learner]) -> None:
        config = self.recipe.self_play
        if config.reset_reference and number > 1:
            for learner in learners.values():
                learner.set_reference()
        kls: list[float] = []
        window = UndecidedWindow(self.recipe.judge.max_undecidable)
        for step in range(config.steps):
            started = time.perf_counter()
            episodes = self.rollouts(number, step)
            payoffs = pay(self.protocol, self.world.judge, episodes, self.by_id)
            played = time.perf_counter()
            row = {
                "phase": "self-play",
                "generation": number,
                "step": step + 1,
                "of": config.steps,
                **self._facts(episodes, payoffs),
            }
            self._check_decided(window, episodes, payoffs, row)
            sequences = self._credited(episodes, payoffs, (number - 1) * config.steps + step)
            if not sequences:
                raise BackendError(
                    f"generation {number}, step {step + 1}: no turn could be paid; {_causes(episodes, payoffs)}"
                )
            for name, learner in learners.items():
                own = [sequence for sequence in sequences if self.recipe.policy_of(sequence.role) == name]
                if not own:  # none of its turns was paid; `unpaid_turns` counts them
                    continue
                metrics = learner.update(own)
                self._publish(name)
                kls.append(metrics["kl_per_turn"])
                row |= metrics if len(learners) == 1 else {f"{name}/{key}": value for key, value in metrics.items()}
            row |= {"play_seconds": played - started, "update_seconds": time.perf_counter() - played}
            self._log(row)
        self.undecided.append(asdict(window.all.found))
        self.kl_peak = max(self.kl_peak, *kls)
        tail = kls[-max(1, len(kls) // 10) :]
        self.kl.append(sum(tail) / len(tail))

    def _check_decided(
        self, window: UndecidedWindow, episodes: Sequence[Episode], payoffs: Sequence[Payoff], row: dict[str, Any]
    ) -> None:
        """Count what the judge could not decide in this step, and say so in ``row``.

        Raises:
            UndecidedError: it is too much; the row is logged.
        """
        pairs = zip(episodes, payoffs, strict=True)
        verdicts = [payoff.verdict for episode, payoff in pairs if episode.error is None and payoff.verdict is not None]
        found = window.add(verdicts)
        if why := Counter(str(verdict.status) for verdict in verdicts if not verdict.decidable):
            row["undecidable_by"] = dict(why)
        if found.too_many:
            self._log(row)
            raise UndecidedError(
                f"generation {row['generation']}, step {row['step']}: too many verdicts cannot be used "
                f"(judge.max_undecidable is {found.limit:g}): {found}. Take another judge or mend what it is asked; or "
                "raise the limit (judge.max_undecidable=...), and go on from the last finished generation by --resume"
            )

    def _credited(self, episodes: Sequence[Episode], payoffs: Sequence[Payoff], number: int) -> list[TrainingSequence]:
        """Training sequences with advantages: reward minus the group's mean at the same move of the same role."""
        config = self.recipe.self_play
        returns: list[float] = []
        # Not by ordinal: after an attempt more, or on another branch, it counts other moves.
        keys: list[tuple[int, str, str, int, int]] = []
        places: list[tuple[str, str, int]] = []
        for index, (episode, payoff) in enumerate(zip(episodes, payoffs, strict=True)):
            ordinals: dict[str, int] = {}
            for turn, reward in zip(episode.turns, payoff.rewards, strict=True):
                ordinal = ordinals[turn.role] = ordinals.get(turn.role, -1) + 1
                if reward is not None and turn.role in self.trained:
                    returns.append(reward)
                    keys.append((index // config.group, turn.role, turn.node, turn.visit, turn.attempt))
                    places.append((episode.key, turn.role, ordinal))
        advantages = credit(returns, keys, scale=config.scale)
        if config.shuffle_advantages:
            advantages = np.random.default_rng(derive_seed(self.world.seed, "shuffle", number)).permutation(advantages)
        by_turn = dict(zip(places, advantages.tolist(), strict=True))
        sequences = [sequence for episode in episodes for sequence in sequences_of(episode, self.trained)]
        sequences = [paid for sequence in sequences if (paid := _paid(sequence, by_turn)).positions]
        assign_advantages(sequences, by_turn)
        return sequences

    def _facts(self, episodes: Sequence[Episode], payoffs: Sequence[Payoff]) -> dict[str, float]:
        """What the step's episodes looked like, apart from anything the learner says."""
        rewards = [abs(r) for payoff in payoffs for r in payoff.rewards if r is not None]
        verdicts = [
            (payoff.verdict, self.by_id[episode.task].label) for episode, payoff in zip(episodes, payoffs, strict=True)
        ]
        unpaid = sum(
            reward is None and turn.kept and turn.role in self.trained
            for episode, payoff in zip(episodes, payoffs, strict=True)
            for turn, reward in zip(episode.turns, payoff.rewards, strict=True)
        )
        decidable = [(verdict, label) for verdict, label in verdicts if verdict is not None and verdict.decidable]
        right = [verdict.score(label) for verdict, label in decidable if label is not None]
        facts = {
            "episodes": float(len(episodes)),
            "bad_quotes": bad_quote_share(episodes),
            "undecidable": 1 - len(decidable) / len(verdicts),
            "unpaid_turns": float(unpaid),
        }
        if right:
            facts["accuracy"] = sum(right) / len(right)
        if rewards:
            facts["reward_size"] = sum(rewards) / len(rewards)
        return facts

    # -- snapshots ----------------------------------------------------------------------------------------------

    def _check(self, learners: Mapping[str, Learner]) -> None:
        """Step-0 self-check on freshly sampled episodes; fails closed."""
        episodes = self.rollouts(1, 0)
        for name, learner in learners.items():
            sequences = self._sequences(episodes, name)
            for sequence in sequences:
                sequence.advantages = [1.0] * len(sequence.positions)
            report = self_check(learner, sequences)
            self._log({"phase": "self-check", "policy": name, **report})

    def _snapshot(self, number: int) -> None:
        versions = {name: policy.version for name, policy in self.policies.items()}
        generation = Generation(number, self._folders(number), versions)
        for name, policy in self.policies.items():
            policy.model.save(generation.folders[name])
        self.generations.append(generation)
        if number == 0:
            self.kl.append(0.0)
        self.on_event({"event": "generation", "generation": number})

    def _folders(self, number: int) -> dict[str, Path]:
        return {name: self.out / "generations" / f"gen{number}" / name for name in self.policies}

    def _save(self, path: Path, learners: Mapping[str, Learner], started: float) -> None:
        self.seconds = self.already + time.perf_counter() - started
        state = {
            "generations": [dict(generation.versions) for generation in self.generations],
            "kl": self.kl,
            "kl_peak": self.kl_peak,
            "undecided": self.undecided,
            "seconds": self.seconds,
            "learners": {name: learner.state_dict() for name, learner in learners.items()},
            "metrics_bytes": (self.out / "metrics.jsonl").stat().st_size,
        }
        save_checkpoint(path, state)

    def _restore(self, path: Path, learners: Mapping[str, Learner]) -> None:
        state = load_checkpoint(path)
        for name, learner in learners.items():
            learner.load_state_dict(state["learners"][name])
            self.policies[name].version = state["generations"][-1][name] - 1
            self._publish(name)
        self.kl, self.kl_peak, self.seconds = list(state["kl"]), state["kl_peak"], state["seconds"]
        self.undecided = list(state["undecided"])
        self.already = self.seconds
        for number, versions in enumerate(state["generations"]):
            self.generations.append(Generation(number, self._folders(number), versions))
        with (self.out / "metrics.jsonl").open("r+b") as stream:
            stream.truncate(state["metrics_bytes"])

    def _log(self, row: dict[str, Any]) -> None:
        with (self.out / "metrics.jsonl").open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        self.on_event({"event": "phase", **row})


class _Demonstration:
    """A stream of demonstration episodes from one source."""

    def __init__(self, mix: DemonstrationSource, owner: SelfPlay, *, seed: int) -> None:
        self.protocol = load_protocol(mix.protocol, owner.recipe.params_of(mix))
        self.tasks: Sequence[Task] = owner.world.tasks.train
        self.seed = seed
        self.engine = Engine(self.protocol, owner.world.judge, seed=seed, judging=False)
        self.lineup: dict[str, Agent] = {}
        encoded: dict[str | None, Agent] = {}
        for role in self.protocol.speakers:
            name = owner.recipe.policy_of(role)
            if name not in encoded:
                agent = build_agent(mix.agent, owner.world)
                encode = getattr(agent, "encode_with", None)
                if name is not None and encode is None:
                    raise ConfigError(
                        f"agent '{agent.name}' cannot demonstrate: it has no encode_with(encoder, policy)"
                    )
                if name is not None and encode is not None:
                    agent = encode(owner.policies[name].model.encoder, name)
                encoded[name] = agent
            self.lineup[role] = encoded[name]

    def play(self, step: int, count: int, group: int) -> list[Episode]:
        rng = np.random.default_rng(derive_seed(self.seed, step))
        chosen = rng.integers(0, len(self.tasks), size=count)
        flips = rng.integers(0, 2, size=count)
        plans = []
        for number, (index, flip) in enumerate(zip(chosen, flips, strict=True)):
            task = self.tasks[int(index)]
            sides = _sides(task, bool(flip))
            plans += [Plan(f"{step}/{number}/{sample}", task, self.lineup, sides) for sample in range(group)]
        return self.engine.play(plans)


def _build_policy(name: str, config: PolicyRecipe, seed: int, start: Generation | None) -> Policy:
    if start is not None:
        return Policy(name, load_model(start.folders[name]))
    spec = config.model if isinstance(config.model, dict) else str(config.model)
    if isinstance(spec, dict) and spec.get("kind") == "tiny":
        spec = {"seed": derive_seed(seed, "policy", name) % 2**31, **spec}
    model = open_model(spec)
    if config.binding == "adapter":
        model = add_lora(model, seed=derive_seed(seed, "adapter", name) % 2**31, **config.lora)
    elif config.lora:
        raise ConfigError(f"policies.{name}: 'lora' has no effect with binding 'full'; write binding: adapter")
    return Policy(name, model)


def _paid(sequence: TrainingSequence, by_turn: Mapping[tuple[str, str, int], float]) -> TrainingSequence:
    """The sequence without the tokens of turns that no decidable verdict paid for: context, but not trained."""
    kept = [i for i, turn in enumerate(sequence.turns) if (sequence.episode, sequence.role, turn) in by_turn]
    if len(kept) == len(sequence.turns):
        return sequence
    logps = sequence.logps
    return replace(
        sequence,
        positions=[sequence.positions[i] for i in kept],
        turns=[sequence.turns[i] for i in kept],
        logps=None if logps is None else [logps[i] for i in kept],
    )


def _causes(episodes: Sequence[Episode], payoffs: Sequence[Payoff]) -> str:
    """Why turns were not paid: the commonest failures of episodes and reasons of verdicts."""
    reasons = Counter(episode.error for episode in episodes if episode.error is not None)
    for payoff in payoffs:
        if payoff.verdict is not None and not payoff.verdict.decidable:
            reasons[f"verdict {payoff.verdict.status}: {payoff.verdict.evidence.get('reason', 'no reason given')}"] += 1
    return "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3)) or "no reward pays a kept turn"


def _sides(task: Task, flipped: bool) -> tuple[int, ...]:
    sides = tuple(range(len(task.answers)))
    return exchanged(sides) if flipped else sides


def _shares(shares: Sequence[float], total: int) -> list[int]:
    """Split ``total`` in proportion, by largest remainder."""
    exact = [share / sum(shares) * total for share in shares]
    counts = [int(x) for x in exact]
    for index in sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])[: total - sum(counts)]:
        counts[index] += 1
    return counts


def metrics_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a ``metrics.jsonl``.

    Raises:
        ArenaError: a line is not JSON.
    """
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise ArenaError(f"{path}:{number}:{error.colno}: not a metrics row: {error.msg}") from error
