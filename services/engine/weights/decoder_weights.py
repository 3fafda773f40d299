"""The tensors of a decoder, fused as the kernels want them, whatever file they came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.model_config import TransformerConfig

Read = Callable[[str], torch.Tensor]
"""Gives a tensor by its own name (see LAYER_TENSORS), in the dtype of the engine. Raises ModelCorrupt if it lacks."""


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """H hidden size, F ffn size, D head size."""

    attention_norm: torch.Tensor
    """[H]"""
    qkv: torch.Tensor
    """[(heads + 2 × KV heads) × D, H]"""
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    """[D]"""
    k_norm: torch.Tensor | None
    output: torch.Tensor
    """[H, heads × D]"""
    output_bias: torch.Tensor | None
    ffn_norm: torch.Tensor
    gate_up: torch.Tensor
    """[2F, H]"""
    down: torch.Tensor
    """[H, F]"""


@dataclass(frozen=True, kw_only=True)
class DecoderWeights:
    embedding: torch.Tensor
    """[V, H]"""
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: torch.Tensor
    """[V, H]; the embedding itself where they are tied"""
    frequency_factors: torch.Tensor | None
    """[D/2] float32: divisors of the rotary frequencies, where the file has them"""

    def num_bytes(self) -> int:
        tensors = [self.embedding, self.norm, *([] if self.head is self.embedding else [self.head])]
        for layer in self.layers:
            tensors += [tensor for tensor in vars(layer).values() if tensor is not None]
        return sum(tensor.nbytes for tensor in tensors)


def assemble(config: TransformerConfig, read: Read) -> DecoderWeights:
    """Fuse the tensors that `read` gives; every shape is checked. Raises ModelCorrupt."""
    heads, kv, hidden, ffn = config.num_heads, config.num_kv_heads, config.hidden_size, config.ffn_size
    q_rows, kv_rows = heads * config.head_dim, kv * config.head_dim

    def get(name: str, *shape: int) -> torch.Tensor:
        tensor = read(name)
        if tuple(tensor.shape) != shape:
            raise ModelCorrupt(f"tensor {name} has the shape {tuple(tensor.shape)}, not {shape}")
        return tensor

    def layer(index: int) -> LayerWeights:
        p = f"layers.{index}."
        projections = (("q", q_rows), ("k", kv_rows), ("v", kv_rows))
        return LayerWeights(
            attention_norm=get(p + "attention_norm", hidden),
            qkv=torch.cat([get(f"{p}{name}", rows, hidden) for name, rows in projections]),
            qkv_bias=torch.cat([get(f"{p}{name}_bias", rows) for name, rows in projections])
            if config.qkv_bias
            else None,
            q_norm=get(p + "q_norm", config.head_dim) if config.qk_norm else None,
            k_norm=get(p + "k_norm", config.head_dim) if config.qk_norm else None,
            output=get(p + "output", hidden, q_rows),
            output_bias=get(p + "output_bias", hidden) if config.output_bias else None,
            ffn_norm=get(p + "ffn_norm", hidden),
            gate_up=torch.cat([get(p + "gate", ffn, hidden), get(p + "up", ffn, hidden)]),
            down=get(p + "down", hidden, ffn),
        )

    scaling = config.rope_scaling
    embedding = get("embedding", config.vocab_size, hidden)
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layer(index) for index in range(config.num_layers)),
        norm=get("norm", hidden),
        head=embedding if config.tied_embeddings else get("head", config.vocab_size, hidden),
        frequency_factors=(
            get("frequency_factors", config.head_dim // 2).float() if scaling and scaling.kind == "factors" else None
        ),
    )
