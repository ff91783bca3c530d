"""Floor 3: who scores. The contract and the registry of judges; what loads a model is imported when one is built.

A spec names a judge on a command line or in YAML: ``exact``, ``match``, ``classifier:path=DIR``, ``llm:model=smollm2``.
"""

from arena.agents import AGENTS
from arena.judges.types import Judge, JudgeView, Statement
from arena.protocols.registry import Registry

__all__ = ["JUDGES", "Judge", "JudgeView", "Statement"]

JUDGES: Registry[Judge] = Registry("judge")
"""Factories of judges by name."""

JUDGES.lazy("exact", "arena.judges.exact:ExactJudge", "knows the label: the right answer gets all the probability")
JUDGES.lazy("match", "arena.judges.exact:MatchJudge", "reads which answer the last statement states, strictly")
JUDGES.lazy(
    "classifier",
    "arena.judges.classifier:load_classifier",
    "a trained network over quoted words",
    needs=("path",),
)
JUDGES.lazy(
    "llm",
    "arena.judges.llm:llm_judge",
    "a language model, by log-probs of the answers in every order, or by what it states",
)
JUDGES.lazy(
    "rubric",
    "arena.judges.rubric:rubric",
    "a language model grades each answer's statements from 1 to 10 by named criteria",
    needs=("model", "criteria"),
)
JUDGES.lazy(
    "llm-api",
    "arena.judges.llm_api:llm_api_judge",
    "a model behind an OpenAI-compatible server, by top log-probs or by what it states, in every order",
    needs=("model",),
    aside=("api_key_env", "cache", "concurrency", "max_cost", "prices", "retries", "rpm", "timeout"),
)
JUDGES.lazy(
    "reward-model",
    "arena.judges.reward_model:reward_model",
    "a network with one output: what each answer's statements are worth by themselves",
)
JUDGES.lazy(
    "process-reward",
    "arena.judges.process_reward:process_reward",
    "a reward model read after every step; the worst, all, the last or the mean of them count",
)
JUDGES.lazy(
    "panel",
    "arena.judges.panel:panel",
    "several judges, or one with several seeds: mean, median, majority, quorum",
    nests=("judge", "judges"),
)
JUDGES.lazy("human", "arena.judges.human:human_judge", "a person at the terminal: answer, confidence and explanation")
JUDGES.lazy("biased", "arena.judges.biased:biased_judge", "knows the label and has planted biases, to test audits with")
JUDGES.lazy(
    "verifier",
    "arena.judges.verifier:verifier",
    "scores answers by a check, against a task field or the label: verifier:check='numeric:field=label'",
    needs=("check",),
)
JUDGES.lazy(
    "composite",
    "arena.judges.composite:composite",
    "the weighted mean of what answers are worth to several judges",
    needs=("parts",),
    nests=("parts",),
)
JUDGES.lazy(
    "constitution",
    "arena.judges.constitution:constitution",
    "a language model says principle by principle whether a reply keeps to it",
    needs=("model",),
)
JUDGES.lazy(
    "critic",
    "arena.judges.critic:critic",
    "a language model says with which probability a reply is correct",
    needs=("model",),
)

AGENTS.lazy("greedy-quotes", "arena.judges.greedy:greedy_quotes", "quotes what convinces the judge most")
