"""Weights from a GGUF file, dequantized."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from services.engine.weights.decoder_weights import DecoderWeights, assemble
from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.gguf_file import GgufFile
from stagemesh.models.model_config import TransformerConfig

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


def load_gguf(file: GgufFile, config: TransformerConfig, dtype: torch.dtype) -> DecoderWeights:
    """Raises ModelCorrupt when a tensor lacks or has the wrong shape, UnsupportedModel for unknown formats."""

    def read(name: str) -> torch.Tensor:
        stored = stored_name(name)
        if stored not in file.tensors:
            raise ModelCorrupt(f"{file.path} has no tensor {stored}")
        values = file.tensor(stored)
        kind = name.rpartition(".")[2]
        if config.permuted_qk and kind in {"q", "q_bias"}:
            values = unpermute(values, config.num_heads)
        elif config.permuted_qk and kind in {"k", "k_bias"}:
            values = unpermute(values, config.num_kv_heads)
        return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)

    return assemble(config, read)


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
