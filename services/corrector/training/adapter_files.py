"""The adapter on disk, in PEFT's layout, as the engine loads it; and what is needed to go on with a training run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from services.corrector.training.decoder import Decoder
from services.corrector.training.recipe import TARGETS, Recipe
from stagemesh.models.errors import ModelCorrupt, ModelMissing

WEIGHTS, CONFIG, RECIPE, CHECKPOINT = (
    "adapter_model.safetensors", "adapter_config.json", "recipe.json", "checkpoint.pt",
)  # fmt: skip
PREFIX = "base_model.model.model."


def save_adapter(folder: Path, decoder: Decoder, recipe: Recipe, revision: str, told: dict[str, Any]) -> None:
    """`told`: what the run says of itself, kept beside the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"{PREFIX}{name}.weight": value.detach().to(torch.bfloat16).contiguous()
        for name, value in decoder.parameters().items()
    }
    layers = decoder.config.num_layers
    save_file(tensors, folder / WEIGHTS)
    config = {
        "peft_type": "LORA", "r": recipe.rank, "lora_alpha": recipe.alpha, "target_modules": list(TARGETS),
        "layers_to_transform": list(range(recipe.first_layer(layers), layers)),
        "bias": "none", "task_type": "CAUSAL_LM", "stagemesh_base_revision": revision,
    }  # fmt: skip
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (folder / RECIPE).write_text(json.dumps({"recipe": recipe.data(), **told}, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Form:
    rank: int
    alpha: int
    first_layer: int


def read_form(folder: Path) -> Form:
    """Raises ModelMissing, ModelCorrupt."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        return Form(int(config["r"]), int(config["lora_alpha"]), min(config.get("layers_to_transform") or [0]))
    except FileNotFoundError:
        raise ModelMissing(f"{folder} holds no adapter") from None
    except (KeyError, ValueError, TypeError) as error:
        raise ModelCorrupt(f"{folder / CONFIG} cannot be read: {error}") from None


def load_into(decoder: Decoder, folder: Path) -> None:
    """Raises ModelCorrupt where the matrices are not those of the decoder."""
    stored = load_file(folder / WEIGHTS)
    for name, value in decoder.parameters().items():
        found = stored.get(f"{PREFIX}{name}.weight")
        if found is None or found.shape != value.shape:
            raise ModelCorrupt(f"{folder / WEIGHTS}: {name} is missing or has another shape")
        with torch.no_grad():
            value.copy_(found.float())
