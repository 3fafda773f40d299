"""Random LoRA adapters in PEFT's layout, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from services.engine.adapters import TARGETS
from services.engine.kernels.native.lora import target_shape
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


def write_random_adapter(
    folder: Path,
    files: ModelFiles,
    *,
    seed: int,
    rank: int = 4,
    targets: Sequence[str] = ("q_proj", "v_proj", "down_proj"),
    strength: float = 1.0,
    **settings: Any,
) -> Path:
    """Write an adapter that changes what the model says; `strength` 1 changes operations about as much as they give."""
    model = load_model_config(files)
    generator = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray[Any, np.dtype[np.float16]]] = {}
    for layer in range(model.num_layers):
        for target in targets:
            rows, cols = target_shape(TARGETS[target], model)
            name = f"base_model.model.model.layers.{layer}.{'self_attn' if target in ATTENTION else 'mlp'}.{target}"
            a = generator.normal(size=(rank, cols)) * cols**-0.5
            b = generator.normal(size=(rows, rank)) * strength * rank**-0.5
            tensors[f"{name}.lora_A.weight"] = a.astype(np.float16)
            tensors[f"{name}.lora_B.weight"] = b.astype(np.float16)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "bias": "none", "target_modules": list(targets)}
    (folder / "adapter_config.json").write_text(json.dumps(config | settings))
    return folder
