"""Which layers of a model attend to the last tokens only, and to how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stagemesh.models.errors import ModelCorrupt

Windows = tuple[int, ...]
"""For each layer how many last tokens a token sees, itself included; 0: all. Empty where no layer has a window."""

DEFAULT_SIZE, DEFAULT_FIRST_LAYER = 4096, 28
"""What transformers takes where a `config.json` is silent."""
SLIDING, FULL = "sliding_attention", "full_attention"


def hf_windows(values: Mapping[str, Any], num_layers: int, path: Path) -> Windows:
    """From a `config.json`: Mistral's window in all layers; Qwen's, if switched on, where `layer_types` or
    `max_window_layers` say. Raises ModelCorrupt."""
    is_mistral = values.get("model_type") == "mistral"
    size = values.get("sliding_window", DEFAULT_SIZE)
    if size is None or not (is_mistral or values.get("use_sliding_window", False)):
        return ()
    first = 0 if is_mistral else _integer(values.get("max_window_layers", DEFAULT_FIRST_LAYER), path)
    kinds = values.get("layer_types") or [SLIDING if index >= first else FULL for index in range(num_layers)]
    if len(kinds) != num_layers or not set(kinds) <= {SLIDING, FULL}:
        raise ModelCorrupt(f"{path}: layer_types must name {SLIDING} or {FULL} for each of {num_layers} layers")
    return _windows(_integer(size, path), [kind == SLIDING for kind in kinds])


def gguf_windows(metadata: Mapping[str, Any], architecture: str, num_layers: int, path: Path) -> Windows:
    """From a GGUF file's metadata: a size, and which layers it holds for (all where the file does not say)."""
    size = metadata.get(f"{architecture}.attention.sliding_window")
    if size is None or not int(size):
        return ()
    pattern = metadata.get(f"{architecture}.attention.sliding_window_pattern")
    has_window = [True] * num_layers if pattern is None else [bool(layer) for layer in pattern]
    if len(has_window) != num_layers:
        raise ModelCorrupt(f"{path}: the sliding window's pattern is not one of {num_layers} layers")
    return _windows(_integer(int(size), path), has_window)


def _windows(size: int, has_window: Sequence[bool]) -> Windows:
    return tuple(size if layer else 0 for layer in has_window) if any(has_window) else ()


def _integer(value: Any, path: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ModelCorrupt(f"{path}: a sliding window of {value!r}, not a whole number")
    return value
