"""LoRA adapters in PEFT's layout: `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors

from services.engine.kernels.native.lora import MAX_RANK, LoraPart, target_shape
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.model_config import TransformerConfig

Floats = npt.NDArray[np.float32]

TARGETS: Mapping[str, str] = {
    "q_proj": "q",
    "k_proj": "k",
    "v_proj": "v",
    "o_proj": "output",
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
}
"""PEFT's names of the linear operations that an adapter can add to → those of LORA_TARGETS."""
_KEY = re.compile(r"(?:^|\.)layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)\.lora_([AB])(?:\.default)?\.weight$")


BASE_REVISION = "stagemesh_base_revision"
"""In the configuration: the `ModelIdentity.revision` that the adapter was trained on, if that is to be checked."""
_PLAIN_PATTERN = re.compile(r"[\w.^$|()\[\]\\-]{1,100}")
"""Expressions without repetition, which no text keeps busy."""


def parse_adapter(
    config: bytes, weights: bytes, model: TransformerConfig, model_revision: str = "", where: str = "adapter"
) -> tuple[LoraPart, ...]:
    """Read and check an adapter for `model` from its two files; `where` stands before messages.

    Raises ModelCorrupt, or UnsupportedModel for variants of LoRA and for another base model.
    """
    settings = _settings(config, where)
    _refuse_variants(settings, where)
    if model_revision and settings.get(BASE_REVISION, model_revision) != model_revision:
        raise UnsupportedModel(f"{where}: the adapter was trained on another model than {model_revision[:12]}")
    matrices: dict[tuple[int, str], dict[str, Floats]] = {}
    for name, values in _read_tensors(weights, where).items():
        match = _KEY.search(name)
        if match is None or match[2] not in TARGETS:
            raise UnsupportedModel(f"{where}: the adapter changes {name}; supported are {', '.join(TARGETS)}")
        matrices.setdefault((int(match[1]), match[2]), {})[match[3]] = values
    if not matrices:
        raise ModelCorrupt(f"{where}: the adapter holds no matrices")
    return tuple(_part(settings, model, where, *key, pair) for key, pair in sorted(matrices.items()))


def _part(
    settings: Mapping[str, Any],
    model: TransformerConfig,
    file: str,
    layer: int,
    module: str,
    pair: Mapping[str, Floats],
) -> LoraPart:
    where = f"{file}: layer {layer}, {module}"
    if set(pair) != {"A", "B"}:
        raise ModelCorrupt(f"{where}: there must be both lora_A and lora_B")
    a, b = pair["A"], pair["B"]
    rows, cols = target_shape(TARGETS[module], model)
    rank = a.shape[0] if a.ndim == 2 else 0
    if layer >= model.num_layers or a.shape != (rank, cols) or b.shape != (rows, rank):
        raise ModelCorrupt(f"{where}: A {a.shape} and B {b.shape} do not fit the model's {(rows, cols)}")
    if not 1 <= rank <= MAX_RANK:
        raise UnsupportedModel(f"{where}: rank {rank}; supported are 1 to {MAX_RANK}")
    alpha = _pattern(settings, "alpha_pattern", layer, module, settings.get("lora_alpha", rank))
    divisor = math.sqrt(rank) if settings.get("use_rslora") else rank
    return LoraPart(layer=layer, target=TARGETS[module], a=a, b=b, scale=_number(alpha, where) / divisor)


def _pattern(settings: Mapping[str, Any], key: str, layer: int, module: str, default: Any) -> Any:
    """PEFT's exceptions, by regular expressions on the ends of module names."""
    name = (
        f"model.layers.{layer}.{'self_attn' if module in {'q_proj', 'k_proj', 'v_proj', 'o_proj'} else 'mlp'}.{module}"
    )
    patterns = settings.get(key) or {}
    if not isinstance(patterns, dict) or not all(map(_PLAIN_PATTERN.fullmatch, patterns)):
        raise UnsupportedModel(f"{key} must map names of modules, or expressions without repetition, to numbers")
    for pattern, value in patterns.items():
        try:
            found = re.fullmatch(rf"(?:.*\.)?(?:{pattern})", name)
        except re.error as error:
            raise ModelCorrupt(f"{key}: {pattern!r} is no expression: {error}") from None
        if found:
            return value
    return default


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelCorrupt(f"{where}: lora_alpha is {value!r}, not a number")
    return float(value)


def _settings(config: bytes, where: str) -> Mapping[str, Any]:
    try:
        values = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise ModelCorrupt(f"{where}: the configuration cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelCorrupt(f"{where}: the configuration is no JSON object")
    return values


def _refuse_variants(settings: Mapping[str, Any], where: str) -> None:
    refused = {
        f"peft_type {settings.get('peft_type')!r}": settings.get("peft_type", "LORA") != "LORA",
        "use_dora": bool(settings.get("use_dora")),
        "lora_bias": bool(settings.get("lora_bias")),
        "bias": settings.get("bias", "none") != "none",
        "fan_in_fan_out": bool(settings.get("fan_in_fan_out")),
        "modules_to_save": bool(settings.get("modules_to_save")),
    }
    for what, present in refused.items():
        if present:
            raise UnsupportedModel(f"{where}: an adapter with {what} is not supported")


def _read_tensors(weights: bytes, where: str) -> dict[str, Floats]:
    """All tensors as float32; numpy has no bfloat16, so the file's bytes are taken as they are."""
    try:
        entries = safetensors.deserialize(weights)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise ModelCorrupt(f"{where}: not a safetensors file: {error}") from None
    return {name: _as_floats(name, entry, where) for name, entry in entries}


def _as_floats(name: str, entry: Mapping[str, Any], where: str) -> Floats:
    data, dtype = bytes(entry["data"]), entry["dtype"]
    if dtype == "BF16":
        values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype in {"F16", "F32"}:
        values = np.frombuffer(data, np.float16 if dtype == "F16" else np.float32).astype(np.float32)
    else:
        raise UnsupportedModel(f"{where}: tensor {name} is stored as {dtype}; supported are F32, F16 and BF16")
    if not np.isfinite(values).all():
        raise ModelCorrupt(f"{where}: tensor {name} holds what is not finite")
    return values.reshape(entry["shape"])
