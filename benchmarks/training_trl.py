"""TRL's side of `training.py`: its GRPOTrainer as it is, given prompts as ids and, for three turns, finished episodes.

A trainer's own loop runs; seconds are those from the end of one optimizer step to the end of the next.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

__all__ = ["train"]


def train(
    folder: Path,
    work: Any,
    *,
    lora: bool,
    turns: str | None,
    episodes: list[list[list[tuple[list[int], bool]]]],
    prompts: list[list[int]],
    settings: dict[str, float],
    steps: int,
    tick: Callable[[], None],
) -> None:
    """Train for some optimizer steps and call ``tick`` before the first one and after each.

    Args:
        folder: of the base model.
        work: sizes, see `training.Work`.
        lora: train an adapter, as arena does; else all weights.
        turns: None samples; ``separate`` and ``packed`` say how ``episodes`` are fed.
        episodes: by prompt and rollout, pieces of (ids, whether they were sampled) after the prompt.
        prompts: ids of each.
        settings: lr, beta and clip.
        steps: optimizer steps.
        tick: takes the time.
    """
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    fed = _fed(turns, prompts, episodes)
    names = [f"prompt {number}" for number in range(len(prompts) if turns != "separate" else len(fed) // work.group)]
    accumulate = max(len(names) // len(prompts), 1)
    rows = len(prompts) * work.group

    class Trainer(GRPOTrainer):  # type: ignore[misc]
        def _tokenize_prompts(self, prompts_: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
            return [prompts[names.index(name)] for name in prompts_], None, {}

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            tick()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            tick()

    def rollout(asked: list[str], _: Any) -> dict[str, Any]:
        taken = dict.fromkeys(asked, 0)
        found: dict[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "env_mask": []}
        for name in asked:
            context, completion, mask = fed[names.index(name) * work.group + taken[name]]
            taken[name] += 1
            for key, value in zip(found, (context, completion, mask), strict=True):
                found[key].append(value)
        return {**found, "logprobs": None}

    with tempfile.TemporaryDirectory() as out:
        args = GRPOConfig(
            out,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=accumulate,
            num_generations=work.group,
            max_completion_length=work.new if turns is None else max(len(completion) for _, completion, _ in fed),
            max_steps=steps,
            learning_rate=settings["lr"],
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=settings["clip"],
            beta=settings["beta"],
            loss_type="bnpo",  # the mean over the step's tokens
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            disable_tqdm=True,
            report_to=[],
            logging_steps=10**6,
            save_strategy="no",
            shuffle_dataset=False,
            model_init_kwargs={"dtype": "float32"},
            # Every rollout has the same length, as on the other side.
            generation_kwargs={"eos_token_id": None},
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        trainer = Trainer(
            model=str(folder),
            reward_funcs=lambda completions, **_: [float(number % 3) for number in range(len(completions))],
            args=args,
            train_dataset=Dataset.from_list([{"prompt": name} for name in names]),
            processing_class=tokenizer,
            callbacks=[Clock()],
            peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear") if lora else None,
            rollout_func=None if turns is None else rollout,
        )
        trainer.train()


def _fed(
    turns: str | None, prompts: list[list[int]], episodes: list[list[list[tuple[list[int], bool]]]]
) -> list[tuple[list[int], list[int], list[int]]]:
    """Samples (context, completion, mask), those of a group in a row."""
    found = []
    if turns == "packed":
        for prompt, group in zip(prompts, episodes, strict=True):
            for pieces in group:
                completion = [token for ids, _ in pieces for token in ids]
                mask = [int(own) for ids, own in pieces for _ in ids]
                found.append((prompt, completion, mask))
    elif turns == "separate":
        spoken = [number for number, (_, own) in enumerate(episodes[0][0]) if own]
        for prompt, group in zip(prompts, episodes, strict=True):
            for number in spoken:
                for pieces in group:
                    context = [*prompt, *(token for ids, _ in pieces[:number] for token in ids)]
                    found.append((context, pieces[number][0], [1] * len(pieces[number][0])))
    return found
