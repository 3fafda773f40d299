"""Weights from a folder in Hugging Face layout."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from services.engine.weights.decoder_weights import DecoderWeights, assemble
from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.model_config import TransformerConfig

TOP_NAMES = {"embedding": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}
LAYER_NAMES = {
    "attention_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "output": "self_attn.o_proj.weight",
    "output_bias": "self_attn.o_proj.bias",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}


def load_safetensors(paths: Sequence[Path], config: TransformerConfig, dtype: torch.dtype) -> DecoderWeights:
    """Read one or more shards. Raises ModelCorrupt when a file is malformed or a tensor lacks or has a wrong shape."""
    with ExitStack() as stack:
        where = {}
        for path in paths:
            try:
                shard = stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelCorrupt(f"{path} cannot be read: {error}") from None
            where.update(dict.fromkeys(shard.keys(), shard))

        def read(name: str) -> torch.Tensor:
            stored = _stored_name(name)
            if stored not in where:
                raise ModelCorrupt(f"{paths[0].parent} has no tensor {stored}")
            tensor: torch.Tensor = where[stored].get_tensor(stored)
            return tensor.to(dtype)

        return assemble(config, read)


def _stored_name(name: str) -> str:
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, index, kind = name.split(".")
    return f"model.layers.{index}.{LAYER_NAMES[kind]}"
