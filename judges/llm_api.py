"""A model behind an OpenAI-compatible server as judge, in every order of the answers.

Servers tell log-probs of the likeliest tokens only. What an answer's spellings have among these is a lower bound, and
an answer that has none of them leaves the verdict undecidable. Where a server tells none, the judge goes by what the
model states in every order, read as strictly as that of a model in this process (`arena.judges.llm`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from arena.agents.openai import OpenAIAgent, openai_agent
from arena.agents.openai.agent import ServerError
from arena.agents.openai.chat import without_cue
from arena.agents.openai.endpoint import OPENAI_URL
from arena.agents.openai.replies import Reply
from arena.agents.prices import Usage
from arena.judges.fingerprint import fingerprint
from arena.judges.forms import log_sum
from arena.judges.orders import Average, Compare, Order, Speaking, combine, presentations, speaking_orders
from arena.judges.prompts import JudgePrompt, labels_for
from arena.judges.speech import BRIEF, CUE, Speech, Spoken, answer_parser, hear, seed_of
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain, certain, decide
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus
from arena.protocols.stated import PARSER, Stated

__all__ = ["LLMApiJudge", "llm_api_judge"]

DecideBy = Literal["either", "logps", "stated"]
Count = Annotated[int, Field(ge=0, le=10**9)]
Result = TypeVar("Result")

MOST_TOP = 20
"""Of how many likeliest tokens OpenAI's server tells the log-probs at most."""
_AROUND = " \t\n()[].:*_\"'`"
"""What may stand around a letter in one token."""


class LLMApiJudge:
    """Asks a server; see `arena.judges.types.AsyncJudge`.

    A refusal of the model or a content filter makes it abstain; a server without an answer after all tries makes the
    verdict ``transport``, one that ran out of tokens ``truncated``.

    Args:
        agent: asks the server, counts what it costs, and keeps a cache.
        prompt: name of a shipped template or a template text; absent: ``rationale`` or ``answer``.
        decide_by: ``logps``, ``stated``, or ``either``: log-probs where the server tells them, else what is stated; a
            judge that reasons first goes by what it states.
        stated: let it also write its answer where log-probs decide.
        speech: how much it writes. Hidden thinking of the server counts against all parts together.
        cue: words that the answer begins with, for a server that takes a prefill; None: ``Answer:``.
        reads: task field whose words count as quoted items where the judge's role may see it.
        average, compare: see `arena.judges.orders`.
        statements: see `arena.judges.llm.LLMJudge`.
        any_case: ``a`` says A, too.

    Raises:
        ConfigError: options that do not go together, or have no effect.
    """

    sees_label = False

    def __init__(
        self,
        agent: OpenAIAgent,
        prompt: str | None = None,
        *,
        decide_by: DecideBy = "either",
        stated: bool = False,
        speech: Speech = BRIEF,
        cue: str | None = None,
        reads: str = "evidence",
        average: Average = "probs",
        compare: Compare = "all",
        statements: Speaking = "given",
        any_case: bool = False,
    ) -> None:
        if speech.reasons and decide_by == "logps":
            raise ConfigError("log-probs of a server are those of its first token: leave out rationale= and thinking=")
        if speech.reasons:
            decide_by = "stated"
        if cue is not None and not agent.settings.prefill:
            raise ConfigError(f"cue={cue!r} is for a server that takes a prefill: add prefill=true, or leave it out")
        _check_effect(decide_by, stated, speech, average=average != "probs", any_case=any_case)
        self.agent = agent
        self.prompt = JudgePrompt(prompt or ("rationale" if speech.rationale else "answer"))
        self.decide_by: DecideBy = decide_by
        self.stated = stated or decide_by == "stated"
        self.speech = speech
        self.cue = (CUE if cue is None else cue) if agent.settings.prefill else ""
        self.reads = reads
        self.average: Average = average
        self.compare: Compare = compare
        self.statements: Speaking = statements
        self.prompt.check_statements(statements)
        self.any_case = any_case
        words = dataclasses.asdict(speech)
        if agent.settings.temperature == 0.0:
            del words["seed"]  # nothing is drawn
        config = {
            "kind": "llm-api",
            "url": agent.endpoint.url,
            "settings": dataclasses.asdict(agent.settings),
            "prompt": self.prompt.source,
            "decide_by": decide_by,
            "stated": self.stated,
            "speech": words,
            "cue": self.cue,
            "reads": reads,
            "average": average,
            "compare": compare,
            "any_case": any_case,
            "parser": PARSER,
        }
        if statements != "given":
            config["statements"] = statements
        self.name = f"llm-api@{fingerprint(config)}"

    @property
    def usage(self) -> Usage:
        """What was asked and paid so far."""
        return self.agent.usage

    async def verdict(self, view: JudgeView) -> Verdict:
        """See `arena.judges.types.AsyncJudge`.

        Raises:
            BackendError: the server gave no answer.
            ConfigError: it refuses the key or the model, or ``max_cost`` cannot be kept.
        """
        try:
            shown = [
                (order, speakers)
                for order in presentations(len(view.answers), self.compare)
                for speakers in speaking_orders(order, self.statements)
            ]
            texts = [self.prompt.present(view, order, self.reads, speakers) for order, speakers in shown]
        except ConfigError as error:
            return abstain(self.name, str(error))
        orders, speakers_of = [order for order, _ in shown], [speakers for _, speakers in shown]
        evidence: dict[str, Any] = {}
        verdict = None
        if self.decide_by != "stated":
            verdict = await self._by_logps(view, orders, speakers_of, texts, evidence)
        if verdict is not None and not self.stated:
            return verdict
        said, told = hear(orders, await self._write(view, orders, texts), speakers_of)
        if verdict is None:
            if said.value is None:
                verdict = abstain(self.name, said.reason, said.status, evidence=evidence)
            else:
                verdict = certain(self.name, said.value, len(view.answers), evidence=evidence)
        verdict.stated = said.value
        verdict.evidence = {**verdict.evidence, "stated": told}
        return verdict

    # Log-probs

    async def _by_logps(
        self,
        view: JudgeView,
        orders: Sequence[Order],
        speakers: Sequence[Order],
        texts: Sequence[str],
        evidence: dict[str, Any],
    ) -> Verdict | None:
        """The verdict by log-probs; None if the server tells none and what is stated may decide."""
        try:
            replies = await _all([self._look(view, text) for text in texts])
        except ServerError as error:
            # Servers that know no log-probs ignore the wish, or call the request a bad one.
            if error.status != 400 or self.decide_by == "logps":
                raise
            evidence["logps"] = f"refused: {error}"
            return None
        if any(reply.finish == "refused" for reply in replies):
            return abstain(self.name, _refused(replies), evidence=evidence)
        if not all(reply.top_logprobs for reply in replies):
            if self.decide_by == "either":
                evidence["logps"] = "the server tells none"
                return None
            reason = f"{self.agent.endpoint.url} tells no log-probs: use decide_by=stated"
            return abstain(self.name, reason, evidence=evidence)
        normal, masses = [], []
        for order, reply in zip(orders, replies, strict=True):
            shares = self._shares(order, reply)
            lost = next((answer for answer, share in shares.items() if share == -math.inf), None)
            if lost is not None:
                known = f"the {len(reply.top_logprobs)} likeliest tokens"
                shown = " ".join(str(answer + 1) for answer in order)
                reason = f"answer {lost + 1} is not among {known} in the order {shown}: decide_by=stated reads words"
                return abstain(self.name, reason, evidence=evidence)
            whole = log_sum(shares.values())
            normal.append([shares[answer] - whole for answer in sorted(shares)])
            masses.append(math.exp(whole))
        logps, told = combine(orders, normal, len(view.answers), self.average, speakers)
        unseen = max(min(logp for _, logp in reply.top_logprobs) for reply in replies)
        evidence |= {**told, "mass": sum(masses) / len(masses)}
        # A spelling that the server does not list is less likely than all that it does.
        evidence |= {"lower_bounds": True, "unlisted_at_most": math.exp(unseen)}
        return decide(self.name, logps, evidence)

    async def _look(self, view: JudgeView, text: str) -> Reply:
        settings = self.agent.settings
        return await self.agent.complete(
            _asked(text),
            max_tokens=1,
            seed=seed_of(self.speech.seed, view.key, text),
            top_logprobs=settings.logprobs,
            cue=self.cue,
        )

    def _shares(self, order: Order, reply: Reply) -> dict[int, float]:
        """Answer -> log of the probability of its spellings among the tokens that the server lists."""
        found: dict[int, list[float]] = {index: [] for index in order}
        place = dict(zip(labels_for(len(order)), order, strict=True))
        for token, logp in reply.top_logprobs:
            letter = token.strip(_AROUND)
            answer = place.get(letter.upper() if self.any_case else letter)
            if answer is not None and not math.isnan(logp):
                found[answer].append(logp)
        return {answer: log_sum(logps) for answer, logps in found.items()}

    # Words

    async def _write(self, view: JudgeView, orders: Sequence[Order], texts: Sequence[str]) -> list[Spoken]:
        return await _all([self._say(view, *each) for each in zip(orders, texts, strict=True)])

    async def _say(self, view: JudgeView, order: Order, text: str) -> Spoken:
        """What is written in one order: a rationale that does not state the answer is followed by a second request."""
        speech = self.speech
        parse = answer_parser([view.answers[index] for index in order], letters=True)
        seed = seed_of(speech.seed, view.key, text)
        first = not speech.rationale
        reply = await self.agent.complete(
            _asked(text), max_tokens=speech.most, seed=seed, cue=self.cue if first else ""
        )
        words = without_cue(reply.text, self.cue)
        found = _read(reply, parse(words, not first, reply.finish == "length"))
        undone = found.status in (VerdictStatus.PARSE_ERROR, VerdictStatus.TRUNCATED)
        if first or not undone or not reply.text.strip():
            return Spoken(found, reply.text, reply.thinking, ())
        labels = " or ".join(labels_for(len(order)))
        more = [{"role": "assistant", "content": reply.text}]
        more.append({"role": "user", "content": f"Which answer is right? Reply with one letter: {labels}."})
        last = await self.agent.complete(
            [*_asked(text), *more], max_tokens=speech.thinking + speech.reserve, seed=seed, cue=self.cue
        )
        found = _read(last, parse(without_cue(last.text, self.cue), False, last.finish == "length"))
        thinking = "\n".join(filter(None, (reply.thinking, last.thinking)))
        return Spoken(found, f"{reply.text}\n{last.text}", thinking, ())


def _check_effect(decide_by: DecideBy, stated: bool, speech: Speech, **of_logps: bool) -> None:
    """Refuse options that change nothing; ``of_logps`` says which of those that are for log-probs are given."""
    if decide_by == "logps" and not stated:
        if speech.temperature:
            raise ConfigError(
                f"temperature={speech.temperature:g} is for what the model writes, and with decide_by=logps it writes "
                "nothing: leave it out, or add stated=true"
            )
        speech.check(writes=False)
    if decide_by == "stated" and any(of_logps.values()):
        name = next(name for name, given in of_logps.items() if given)
        raise ConfigError(f"{name}= is for log-probs, and this judge goes by what the model states: leave it out")


async def _all(work: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """All results, when everything has ended; else the first fault."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # none is an exception


def _asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text.encode("utf-8", "replace").decode()}]


def _read(reply: Reply, found: Stated[int]) -> Stated[int]:
    if reply.finish == "refused":
        return Stated(None, VerdictStatus.ABSTAIN, _refused([reply]))
    if reply.finish == "length" and not reply.text.strip():
        return Stated(None, VerdictStatus.TRUNCATED, "used up all tokens before it said anything: raise thinking=")
    return found


def _refused(replies: Sequence[Reply]) -> str:
    words = next(reply.text for reply in replies if reply.finish == "refused")
    return f"refused to judge: {words.strip()[:80]!r}"


def llm_api_judge(
    *,
    model: str,
    base_url: str = OPENAI_URL,
    api_key_env: str = "",
    prompt: str | None = None,
    decide_by: DecideBy = "either",
    stated: bool = False,
    rationale: Count = 0,
    reserve: Annotated[int, Field(ge=1, le=10**9)] = 24,
    thinking: Count = 0,
    temperature: Annotated[float, Field(ge=0, le=10)] | None = 0.0,
    seed: int = 0,
    cue: str | None = None,
    reads: str | None = None,
    average: Average = "probs",
    compare: Compare = "all",
    statements: Speaking = "given",
    any_case: bool = False,
    top: Annotated[int, Field(ge=1, le=10**9)] | None = None,
    prefill: bool = False,
    concurrency: Annotated[int, Field(ge=1, le=10**9)] = 16,
    rpm: Annotated[float, Field(gt=0, le=1e6)] | None = None,
    timeout: Annotated[float, Field(gt=0, le=1e6)] = 120.0,
    retries: Annotated[int, Field(ge=0, le=10**9)] = 5,
    max_cost: Annotated[float, Field(gt=0, le=1e6)] | None = None,
    prices: str = "",
    cache: str = "",
) -> LLMApiJudge:
    """The judge that a spec names: ``llm-api:model=gpt-4.1-mini`` or with ``base_url=`` any server of that sort.

    Args:
        model, base_url, api_key_env, prefill, concurrency, rpm, timeout, retries, max_cost, prices, cache: see
            `arena.agents.openai.specs.openai_agent`.
        prompt, decide_by, stated, cue, reads, average, compare, statements, any_case: see `LLMApiJudge`.
        rationale, reserve, thinking, seed: see `arena.judges.speech.Speech`.
        temperature: at which words are drawn; None leaves it to the server, as reasoning models demand.
        top: how many of the likeliest tokens the server is asked for; None: 20, the most that OpenAI's tells.

    Raises:
        MissingExtraError: the SDK is not installed.
        ConfigError: an address, a key or a price that is missing or wrong, or an option without effect.
    """
    agent = openai_agent(
        model=model,
        base_url=base_url,
        api_key_env=api_key_env,
        temperature=temperature,
        logprobs=top or MOST_TOP,
        prefill=prefill,
        concurrency=concurrency,
        rpm=rpm,
        timeout=timeout,
        retries=retries,
        max_cost=max_cost,
        prices=prices,
        cache=cache,
    )
    judge = LLMApiJudge(
        agent,
        prompt,
        decide_by=decide_by,
        stated=stated,
        speech=Speech(rationale, reserve, thinking, temperature or 0.0, seed),
        cue=cue,
        reads=reads or "evidence",
        average=average,
        compare=compare,
        statements=statements,
        any_case=any_case,
    )
    if reads is not None:
        judge.prompt.check_reads(reads)
    if top is not None:
        _check_effect(judge.decide_by, stated, judge.speech, top=True)
    return judge
