"""A policy's tokens from a running ``vllm serve``: here, or on another machine that reads the same folder of adapters.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora --max-lora-rank 16 \\
        --logprobs-mode processed_logprobs --generation-config vllm

    backend = vllm_server_backend(model, "debater@v3", url="http://localhost:8000")

On a CPU without ``--no-enable-chunked-prefill`` it dies of seeded requests with long prompts (vLLM 0.32). The server
has to serve the model's base. Requests carry token ids and are answered in token ids; text plays no part.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from arena.agents.adapters import AdapterShelf, PublishedAdapter
from arena.agents.batching import Answer, BatchingBackend, Question, Speaker
from arena.agents.loops import LoopThread
from arena.agents.models import Model
from arena.agents.sampling import PLAIN
from arena.protocols.errors import BackendError, ConfigError, MissingExtraError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["VLLMServer", "VLLMServerBackend", "vllm_server_backend"]

_START = (
    "start it as: VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora --max-lora-rank 16 "
    "--logprobs-mode processed_logprobs --generation-config vllm"
)
_RETRIES = 4
"""New tries of a request after faults that may pass. A request has one answer, whoever asks again gets the same."""
_TOKEN = "token_id:"


class VLLMServer:
    """One server as all policies of this process share it; `VLLMServer.at` gives that one.

    Args:
        url: its address, with or without ``/v1``.
        folder: for adapters, readable by the server; a temporary one if None.
        timeout: seconds that an answer may take.

    Raises:
        MissingExtraError: the openai SDK is not installed.
        BackendError: there is no server, or it does not answer.
        ConfigError: it serves no model, or tells other log-probs than those that tokens are drawn under.
    """

    _all: ClassVar[weakref.WeakValueDictionary[tuple[str, Path | None, float], VLLMServer]] = (
        weakref.WeakValueDictionary()
    )
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, url: str, folder: Path | None = None, timeout: float = 600.0) -> None:
        self.url = f"{url.rstrip('/').removesuffix('/v1')}/v1"
        self.base = ""
        """Name of the base, as the server calls it."""
        self.max_length: int | None = None
        """Most tokens of a context with its answer."""
        self.shelf = AdapterShelf(folder)
        self._loaded: weakref.WeakSet[PublishedAdapter] = weakref.WeakSet()
        self.loop = LoopThread("arena-vllm-server")
        try:
            self._client = _client(self.url, timeout)
            self.loop.run(self._look())
            self.loop.run(self._check_mode())
        except BaseException:
            self.loop.close()
            raise
        weakref.finalize(self, _shut, self.loop, self._client)

    @classmethod
    def at(cls, url: str, folder: Path | None = None, timeout: float = 600.0) -> VLLMServer:
        """The server at an address; raises as the class does."""
        with cls._opening:
            server = cls._all.get((url, folder, timeout))
            if server is None:
                server = cls._all[url, folder, timeout] = cls(url, folder, timeout)
            return server

    async def ask(self, question: Question, adapter: PublishedAdapter | None) -> Answer:
        """The answer, in the server's loop; see `arena.agents.batching`.

        Raises:
            BackendError: the server refused, failed, or does not answer.
        """
        sampling, scored = question.sampling, question.scored
        body: dict[str, Any] = {
            "model": self.base if adapter is None else adapter.folder.name,
            "prompt": question.ids,
            "max_tokens": question.max_tokens,
            "seed": question.seed,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            # Named, since a server has defaults of its own for what is not.
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "ignore_eos": True,
            "stop_token_ids": list(question.end_ids),
            "logprobs": len(scored),
            "return_tokens_as_token_ids": True,
            "add_special_tokens": False,
        }
        if question.allowed is not None:
            body["allowed_token_ids"] = question.allowed
        if scored:
            body["logprob_token_ids"] = list(scored)
        return _read(await self._post("/completions", body), question)

    async def load(self, adapter: PublishedAdapter) -> None:
        """Load an adapter, in the server's loop; it is unloaded when nobody holds it any more.

        Raises:
            BackendError: the server refuses it.
        """
        if adapter in self._loaded:
            return
        # Of two processes with the same weights, each has its own, so that none takes away what the other still needs.
        name = adapter.folder.name
        try:
            await self._post("/load_lora_adapter", {"lora_name": name, "lora_path": str(adapter.folder)}, str)
        except BackendError as error:
            # Nobody else uses the name: an answer was lost on its way, and the request made again.
            if "already been loaded" not in str(error):
                hint = f"the server must be able to read {adapter.folder}; {_START}"
                raise BackendError(f"'{adapter.name}' was not loaded: {error}; {hint}") from error
        self._loaded.add(adapter)
        weakref.finalize(adapter, _forget, weakref.ref(self), name).atexit = False

    async def _look(self) -> None:
        """Find the base's name and length."""
        listed = await self._get("/models")
        bases = [each for each in listed.get("data", ()) if not each.get("parent")]
        if not bases:
            raise ConfigError(f"the server at {self.url} serves no model")
        self.base = str(bases[0]["id"])
        length = bases[0].get("max_model_len")
        self.max_length = None if length is None else int(length)

    async def _check_mode(self) -> None:
        """A token without an alternative is certain where constraints count, and hardly ever where they do not."""
        for token in (0, 1):
            answer = await self.ask(Question([0], 0, PLAIN, 1, allowed=[token]), None)
            if answer.ids != (token,) or abs(answer.logps[0]) > 1e-4:
                raise ConfigError(
                    f"the server at {self.url} tells log-probs before temperature and constraints, and nothing can be "
                    f"trained on these: {_START}"
                )

    async def _post(self, path: str, body: dict[str, Any], kind: type[Any] = object) -> Any:
        import openai

        try:
            return await self._client.post(path, body=body, cast_to=kind)
        except openai.OpenAIError as error:
            raise BackendError(f"the server at {self.url}: {_told(error)}") from error

    async def _get(self, path: str) -> Any:
        import openai

        try:
            return await self._client.get(path, cast_to=object)
        except openai.OpenAIError as error:
            raise BackendError(f"the server at {self.url}: {_told(error)}") from error

    async def _unload(self, name: str) -> None:
        with contextlib.suppress(BackendError):  # nobody waits for it, and a server that is gone holds nothing
            await self._post("/unload_lora_adapter", {"lora_name": name}, str)


class VLLMServerBackend(BatchingBackend):
    """Speaks for one policy through a server.

    Args:
        server: serves the base.
        speaker: of the model.
        policy: name and version in ledgers.
    """

    def __init__(self, server: VLLMServer, speaker: Speaker, policy: str) -> None:
        super().__init__(speaker, policy, server.loop)
        self.server = server

    @property
    def max_length(self) -> int | None:
        """Most tokens of context and answer together."""
        known = [length for length in (super().max_length, self.server.max_length) if length is not None]
        return min(known, default=None)

    @property
    def _shelf(self) -> AdapterShelf:
        return self.server.shelf

    async def _ask(self, question: Question, adapter: PublishedAdapter | None) -> Answer:
        return await self.server.ask(question, adapter)

    async def _load(self, adapter: PublishedAdapter) -> None:
        await self.server.load(adapter)


def vllm_server_backend(
    model: Model,
    policy: str = "",
    adapter: str | None = "default",
    *,
    url: str,
    adapters: str = "",
    timeout: float = 600.0,
) -> VLLMServerBackend:
    """The backend of a policy whose base a server serves.

    Args:
        model: network and encoder; the server has to serve its base.
        policy: name and version of the weights in ledgers; the model's name if empty.
        adapter: which LoRA adapter answers, if the network has any; None: the base without them.
        url: address of the server, such as ``http://localhost:8000``.
        adapters: folder for adapters that the server reads too; a temporary one if empty (a server on this machine).
        timeout: seconds that an answer may take.

    Raises:
        MissingExtraError: the openai SDK is not installed.
        ConfigError: an adapter or a server that cannot work.
        BackendError: the server does not answer, or does not load the adapter.
    """
    server = VLLMServer.at(url, Path(adapters).resolve() if adapters else None, timeout)
    speaker = Speaker(model.name, model.encoder.end_ids, model.max_length)
    backend = VLLMServerBackend(server, speaker, policy or model.name)
    backend.follow(model, adapter)
    return backend


def _shut(loop: LoopThread, client: AsyncOpenAI) -> None:
    """Close the connections that are kept open, in the loop that they belong to, and end it."""
    loop.run(client.close())
    loop.close()


def _client(url: str, timeout: float) -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI
    except ImportError as error:
        raise MissingExtraError(
            "the backend 'vllm-server' needs the openai SDK: pip install 'debate-arena[openai]'"
        ) from error
    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=_RETRIES, timeout=timeout)
    # The SDK takes these from the environment; they are nobody else's business.
    client.organization = client.project = None
    return client


def _read(reply: Any, question: Question) -> Answer:
    """The answer in a completion.

    Raises:
        BackendError: it is none, or the server ended it by rules of its own.
    """
    try:
        (choice,) = reply["choices"]
        told = choice["logprobs"]
        ids = tuple([int(token.removeprefix(_TOKEN)) for token in told["tokens"]])
        logps = tuple(map(float, told["token_logprobs"]))
        first = told["top_logprobs"][0] if question.scored else {}
        scored = {token: float(first[f"{_TOKEN}{token}"]) for token in question.scored}
        reason = choice["finish_reason"]
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BackendError(f"the server's answer is no completion with token ids and log-probs: {error!r}") from error
    if reason not in ("stop", "length") or (reason == "stop" and ids[-1:] and ids[-1] not in question.end_ids):
        raise BackendError(f"the server ended an answer at {ids[-1:]} ({reason}), not at {question.end_ids}: {_START}")
    return Answer(ids, logps, scored)


def _forget(server: weakref.ref[VLLMServer], name: str) -> None:
    found = server()
    if found is not None:
        found.loop.start(found._unload(name))


def _told(error: Any) -> str:
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or error)[:300]
