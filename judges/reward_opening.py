"""Opening and making reward networks.

Opened from a hub name or folder (``AutoModelForSequenceClassification`` with one label), or made of a language model by
putting a fresh head on it, with or without LoRA.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from arena.agents.models import Model, check_model, encoder_for, older_peft, open_model
from arena.agents.quiet import quiet
from arena.judges.reward_network import ExchangeEncoder, PairEncoder, RewardNetwork
from arena.protocols.errors import ConfigError
from arena.protocols.registry import parse_spec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["add_lora", "attach_head", "load_reward_network", "open_reward_network"]


def attach_head(model: Model) -> Any:
    """The body of a language model with a reward head of zeros on it, float32; the model is used up.

    A head of zeros says nothing yet, which is what is measured before training.

    Raises:
        ConfigError: transformers has no classifier for this architecture.
    """
    from transformers import AutoModelForSequenceClassification

    classes: Any = AutoModelForSequenceClassification
    network: Any = model.network
    base: Any = network.merge_and_unload() if hasattr(network, "peft_config") else network
    config = copy.deepcopy(base.config)
    config.num_labels = 1
    config.architectures = None
    try:
        with torch.device("meta"):
            classifier: Any = classes.from_config(config)
    except ValueError as error:
        raise ConfigError(f"'{model.name}' cannot carry a reward head: {str(error).splitlines()[0]}") from None
    setattr(classifier, classifier.base_model_prefix, base.base_model)
    if not hasattr(classifier, "score"):
        raise ConfigError(f"'{model.name}' cannot carry a reward head: {type(classifier).__name__} has none at the end")
    width = config.get_text_config().hidden_size
    # On "meta" the layer does not draw its own start from the global generator.
    classifier.score = torch.nn.Linear(width, 1, bias=False, device="meta").to_empty(device=base.device)
    torch.nn.init.zeros_(classifier.score.weight)
    return classifier.float().eval()


def open_reward_network(spec: str | dict[str, Any], *, train: bool = False, seed: int = 0) -> RewardNetwork:
    """Open what ``spec`` names: a hub name or folder of a reward model, or a language model to train one from.

    Args:
        spec: as of `arena.agents.models.open_model`.
        train: put a fresh head on what has none; else that is an error, since its scores would mean nothing.
        seed: of a ``tiny`` model without one.

    Raises:
        ConfigError: nothing of that name, or no reward model.
    """
    check_model(spec)
    place = _place(spec)
    found = None if place is None else _open_classifier(*place)
    if found is None and not train:
        raise ConfigError(
            f"'{spec}' has no reward head, so its scores would mean nothing: train one (arena train reward_model "
            "shows how), or name a model for sequence classification"
        )
    if found is None:
        asked = spec
        if not isinstance(spec, str) or spec.partition(":")[0] == "tiny":
            tiny = parse_spec(spec)
            asked = {"kind": tiny.kind, **({"seed": seed} if tiny.kind == "tiny" else {}), **tiny.args}
        model = open_model(asked)
        found = RewardNetwork(attach_head(model), model.encoder, model.source)
    if train:
        found.network.float()
    return found


def _place(spec: str | dict[str, Any]) -> tuple[str, bool] | None:
    """Folder or hub name, and whether it is a folder; None for models of our own, which have no head."""
    if isinstance(spec, str) and Path(spec).is_dir():
        return spec, True
    if isinstance(spec, str) and spec.partition(":")[0] not in ("tiny", "smollm2", "generation", "hf"):
        return spec, False
    asked = parse_spec(spec)
    if asked.kind == "generation":
        return str(asked.args["path"]), True
    if asked.kind == "hf":
        name = str(asked.args["model"])
        return name, Path(name).is_dir()
    return None


@quiet()
def _open_classifier(place: str, local: bool) -> RewardNetwork | None:
    """A checkpoint for sequence classification; None where it is none, or has no head of its own."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(place, local_files_only=local)
        if not any("SequenceClassification" in name for name in config.architectures or ()):
            return None
        network, info = AutoModelForSequenceClassification.from_pretrained(
            place, local_files_only=local, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=local)
    except (OSError, ValueError) as error:
        if local and not (Path(place) / "config.json").is_file():
            return None
        raise ConfigError(
            f"'{place}' cannot be opened as a reward model: {str(error).strip().splitlines()[0]}"
        ) from error
    if info["missing_keys"]:
        raise ConfigError(f"'{place}' lacks weights: {', '.join(sorted(info['missing_keys'])[:3])}")
    return RewardNetwork(network.eval(), _exchange_encoder(tokenizer), None if local else place)


def _exchange_encoder(tokenizer: PreTrainedTokenizerBase) -> ExchangeEncoder:
    core = getattr(tokenizer, "backend_tokenizer", None)
    words = core is not None and type(core.model).__name__ == "WordLevel"
    if words or getattr(tokenizer, "chat_template", None):
        return encoder_for(tokenizer)
    return PairEncoder(tokenizer)


def add_lora(scorer: RewardNetwork, args: Mapping[str, Any], *, seed: int) -> RewardNetwork:
    """A LoRA on the body (Hu et al. 2021); the head is trained whole. The global random state stays as it was.

    Args:
        scorer: used up: peft puts the adapter inside its network.
        args: ``r``, ``alpha``, ``targets`` as of `arena.agents.models.add_lora`.
        seed: of the adapter.

    Raises:
        ConfigError: no module is called as ``targets`` say.
    """
    from peft import LoraConfig, TaskType, get_peft_model

    targets = args.get("targets", "all-linear")
    config = LoraConfig(
        r=args.get("r", 8),
        lora_alpha=args.get("alpha", 16.0),
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type=TaskType.SEQ_CLS,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with older_peft():
                network: Any = get_peft_model(scorer.network, config).eval()
        except ValueError as error:
            raise ConfigError(f"LoRA of a reward model: {str(error).splitlines()[0]}") from error
    return RewardNetwork(network, scorer.encoder, scorer.source, scorer.tile)


@quiet()
def load_reward_network(folder: Path, source: str | dict[str, Any] | None, *, lora: bool) -> RewardNetwork:
    """Read what `RewardNetwork.save` wrote.

    Args:
        folder: where.
        source: spec of the body of a LoRA, if it was not saved with it.
        lora: whether it is one.

    Raises:
        ConfigError: the folder holds no such network.
    """
    if not lora:
        found = _open_classifier(str(folder), True)
        if found is None:
            raise ConfigError(f"'{folder}' holds no reward model: it has no config.json, or one of another network")
        return found
    from peft import PeftModel

    body = (
        open_reward_network(source, train=True) if source is not None else _open_classifier(str(folder / "base"), True)
    )
    if body is None:
        raise ConfigError(f"'{folder / 'base'}' holds no reward model")
    with older_peft():
        network = PeftModel.from_pretrained(body.network, str(folder), is_trainable=True).eval()
    return RewardNetwork(network, body.encoder, source)
