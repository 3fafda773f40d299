"""How GGUF files name a decoder's tensors, and in which order they keep the rows of q and k."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Row = TypeVar("Row", np.float32, np.uint8)

TOP_NAMES = {
    "embedding": "token_embd.weight",
    "norm": "output_norm.weight",
    "head": "output.weight",
    "frequency_factors": "rope_freqs.weight",
}
LAYER_NAMES = {
    "attention_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "output": "attn_output.weight",
    "output_bias": "attn_output.bias",
    "ffn_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
}


def unpermute(values: npt.NDArray[Row], num_heads: int) -> npt.NDArray[Row]:
    """Undo llama.cpp's order of q and k rows, (head, D/2, 2), which pairs neighbours, back to (head, 2, D/2)."""
    halves = values.shape[0] // num_heads // 2
    return values.reshape(num_heads, halves, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def stored_name(name: str) -> str:
    """The file's name for a tensor of the engine."""
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, index, kind = name.split(".")
    return f"blk.{index}.{LAYER_NAMES[kind]}"
