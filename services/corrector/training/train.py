"""One training run: resumable, bounded in time, the same for the same recipe and data, up to rounding."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import torch

from services.corrector.training.adapter_files import CHECKPOINT, save_adapter
from services.corrector.training.decoder import Decoder
from services.corrector.training.examples import Example, Told, composed, example_of, made_up
from services.corrector.training.losses import loss_of
from services.corrector.training.recipe import Recipe, recipe_from
from stagemesh.models.revision import revision
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

MEASURED_STEPS = 3
"""After so many, a budget of time becomes a number of steps."""
SAVED_EVERY = 20
SHARE_OF_OWN = 0.5
"""Of a tenant's own cases among the examples, where there are any."""
MAX_NORM = 1.0


@dataclass(frozen=True)
class Progress:
    step: int
    steps: int
    terms: dict[str, float]
    eta_s: float


def train(
    files: ModelFiles,
    folder: Path,
    recipe: Recipe,
    *,
    minutes: float = 0.0,
    own: Sequence[Told] = (),
    resumes: bool = False,
    on_step: Callable[[Progress], None] = lambda progress: None,
) -> Recipe:
    """Train and save an adapter into `folder`; gives the recipe with the steps that were planned.

    `minutes`: plan as many steps as fit. `own`: cases of a tenant, mixed with those made up.
    Raises ModelError for models that cannot be trained.
    """
    checkpoint = _checkpoint(folder) if resumes else None
    if checkpoint is not None:
        recipe = recipe_from(checkpoint["recipe"])
    torch.manual_seed(recipe.seed)
    decoder = Decoder(files, rank=recipe.rank, alpha=recipe.alpha, seed=recipe.seed, first_layer=recipe.first_layer)
    parameters = list(decoder.parameters().values())
    optimizer = torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    first = 0
    if checkpoint is not None:
        _restore(decoder, optimizer, checkpoint)
        first = checkpoint["step"]
    batches = islice(_batches(files, recipe, own), first, None)
    rng = Random(f"terms {recipe.seed} {first}")
    step, started_s, means = first, time.monotonic(), dict[str, float]()
    is_planned = not minutes or checkpoint is not None
    while step < recipe.steps:
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * _share(step, recipe)
        terms = _step(decoder, optimizer, parameters, next(batches), recipe, rng)
        step += 1
        means = {name: 0.9 * means.get(name, value) + 0.1 * value for name, value in terms.items()}
        step_s = (time.monotonic() - started_s) / (step - first)
        if not is_planned and step == MEASURED_STEPS:
            recipe, is_planned = replace(recipe, steps=max(MEASURED_STEPS, int(minutes * 60 / step_s))), True
        on_step(Progress(step, recipe.steps, means, step_s * (recipe.steps - step)))
        if step % SAVED_EVERY == 0 or step == recipe.steps:
            _save_checkpoint(folder, decoder, optimizer, recipe, step)
    save_adapter(folder, decoder, recipe, revision(files), {"own_cases": len(own), "terms": means})
    return recipe


def _step(
    decoder: Decoder, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], batch: Sequence[Example],
    recipe: Recipe, rng: Random,
) -> dict[str, float]:  # fmt: skip
    optimizer.zero_grad(set_to_none=True)
    sums: dict[str, float] = {}
    for example in batch:
        loss, terms = loss_of(decoder, example, recipe.losses, rng)
        (loss / len(batch)).backward()  # type: ignore[no-untyped-call]
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value / len(batch)
    torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
    optimizer.step()
    return sums


def _share(step: int, recipe: Recipe) -> float:
    """Of the learning rate: rising over the warm-up, then falling along a cosine."""
    if step < recipe.warmup_steps:
        return (step + 1) / recipe.warmup_steps
    done = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _batches(files: ModelFiles, recipe: Recipe, own: Sequence[Told]) -> Iterator[list[Example]]:
    tokenizer = load_tokenizer(files).build()
    rng = Random(f"batches {recipe.seed}")
    made, mixed, owned = made_up(recipe.seed, "first"), composed(recipe.seed), cycle(own)
    batch: list[Example] = []
    while True:
        told = next(mixed) if rng.random() < recipe.composed else next(made)
        if own and rng.random() < SHARE_OF_OWN:
            told = next(owned)
        example = example_of(told, tokenizer, rng, recipe.max_tokens)
        if example is not None:
            batch.append(example)
        if len(batch) == recipe.batch:
            yield batch
            batch = []


def _checkpoint(folder: Path) -> dict[str, Any] | None:
    path = folder / CHECKPOINT
    return torch.load(path, weights_only=True) if path.exists() else None


def _save_checkpoint(
    folder: Path, decoder: Decoder, optimizer: torch.optim.Optimizer, recipe: Recipe, step: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parameters = {name: value.detach() for name, value in decoder.parameters().items()}
    state = {"step": step, "recipe": recipe.data(), "parameters": parameters, "optimizer": optimizer.state_dict()}
    beside = folder / f"{CHECKPOINT}.part"
    torch.save(state, beside)
    os.replace(beside, folder / CHECKPOINT)


def _restore(decoder: Decoder, optimizer: torch.optim.Optimizer, checkpoint: dict[str, Any]) -> None:
    with torch.no_grad():
        for name, value in decoder.parameters().items():
            value.copy_(checkpoint["parameters"][name])
    optimizer.load_state_dict(checkpoint["optimizer"])
