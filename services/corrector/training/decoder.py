"""A frozen Llama decoder in plain PyTorch with LoRA on its linear operations, for training on the CPU.

Weights and activations are bfloat16 where the processor multiplies it fast, else float32; the adapter's matrices are
kept in float32 and rounded for each pass.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from services.corrector.training.recipe import TARGETS
from stagemesh.models.errors import UnsupportedModel
from stagemesh.models.gguf_file import GgufFile, open_gguf
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.store import ModelFiles

PAGE_TOKENS = 16
_STORED = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip


@dataclass
class Seen:
    """What the inference-aware terms of the loss need from one pass."""

    layer: int = -1
    """Whose attention is looked at; -1: none."""
    rows: torch.Tensor | None = None
    """[R] positions whose attention is looked at."""
    key_scales: list[torch.Tensor] = field(default_factory=list)
    """[S] for each layer: the greatest key of each position, as a logarithm; only where `wants_keys`."""
    wants_keys: bool = False
    page_mass: torch.Tensor | None = None
    """[R, pages] share of attention."""


@dataclass(frozen=True)
class Branches:
    positions: torch.Tensor
    """[S] of each token in its branch, counted from the trunk's beginning."""
    mask: torch.Tensor
    """[S, S] what each token sees: the trunk, and its own branch up to itself."""


def branches_of(token_branches: torch.Tensor) -> Branches:
    """Of the branch numbers of tokens [S]: 0 for the trunk, which comes first."""
    length = len(token_branches)
    order = torch.arange(length)
    same = token_branches[:, None] == token_branches[None, :]
    mask = (same | (token_branches == 0)[None, :]) & (order[None, :] <= order[:, None])
    return Branches(positions=mask.sum(1) - 1, mask=mask)


@dataclass
class Past:
    """Keys and values of the tokens before, for each layer: [KV heads, S, D] each. Not trained through."""

    layers: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    @property
    def length(self) -> int:
        return self.layers[0][0].shape[1] if self.layers else 0


class Linear:
    """`y = W x`, frozen."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight)


class LoraLinear:
    """`y = W x + scale · B A x`; W is frozen."""

    def __init__(self, weight: torch.Tensor, rank: int, alpha: int, generator: torch.Generator) -> None:
        rows, columns = weight.shape
        self.weight = weight
        self.scale = alpha / rank
        self.a = (torch.randn(rank, columns, generator=generator) / math.sqrt(columns)).requires_grad_()
        self.b = torch.zeros(rows, rank).requires_grad_()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        low = functional.linear(x, self.a.to(x.dtype))
        return functional.linear(x, self.weight) + self.scale * functional.linear(low, self.b.to(x.dtype))


def fastest_dtype() -> torch.dtype:
    """bfloat16 or float32, whichever multiplies faster here: without the instructions it is a hundred times slower."""
    times_s = {}
    for dtype in (torch.bfloat16, torch.float32):
        x, weight = torch.ones(64, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
        functional.linear(x, weight)
        started_s = time.perf_counter()
        for _ in range(3):
            functional.linear(x, weight)
        times_s[dtype] = time.perf_counter() - started_s
    return min(times_s, key=lambda dtype: times_s[dtype])


class Decoder:
    def __init__(
        self, files: ModelFiles, *, rank: int, alpha: int, seed: int,
        first_layer: Callable[[int], int] = lambda layers: 0, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        """`first_layer`: from the number of layers, the first that has a LoRA; no gradient goes below it.

        Raises UnsupportedModel for models that are no plain Llama in a GGUF file.
        """
        if files.kind != "gguf":
            raise UnsupportedModel(f"{files.path}: adapters are trained on models in GGUF files")
        stored = open_gguf(files.path)
        self.config = load_model_config(files)
        _require_plain(self.config, files)
        generator = torch.Generator().manual_seed(seed)
        self._dtype = dtype or fastest_dtype()
        self.embedding = self._read(stored, "token_embd")
        self.head = self.embedding if self.config.tied_embeddings else self._read(stored, "output")
        self.norm = self._read(stored, "output_norm").float()
        self.norms = [
            tuple(self._read(stored, f"blk.{layer}.{name}").float() for name in ("attn_norm", "ffn_norm"))
            for layer in range(self.config.num_layers)
        ]
        first = first_layer(self.config.num_layers)
        self.linears = [
            {
                name: LoraLinear(self._linear(stored, layer, name), rank, alpha, generator)
                if layer >= first
                else Linear(self._linear(stored, layer, name))
                for name in TARGETS
            }
            for layer in range(self.config.num_layers)
        ]

    def parameters(self) -> dict[str, torch.Tensor]:
        """By PEFT's names, without its prefix: `layers.0.self_attn.q_proj.lora_A`."""
        found = {}
        for layer, linears in enumerate(self.linears):
            for name, linear in linears.items():
                if isinstance(linear, Linear):
                    continue
                block = "mlp" if _STORED[name].startswith("ffn") else "self_attn"
                found[f"layers.{layer}.{block}.{name}.lora_A"] = linear.a
                found[f"layers.{layer}.{block}.{name}.lora_B"] = linear.b
        return found

    def hidden(
        self, token_ids: torch.Tensor, seen: Seen | None = None, past: Past | None = None, keep: Past | None = None,
        branches: Branches | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Of one sequence, [S] int64 → [S, H], normalised for the head.

        `past`: what stands before it. `keep`, empty, takes the keys and values of all up to its end. `branches`: the
        sequence is a trunk with branches that do not see each other.
        """
        start = past.length if past else 0
        positions = torch.arange(start, start + len(token_ids)) if branches is None else branches.positions
        cos, sin = self._rotary(positions)
        mask = None if branches is None else branches.mask
        if mask is None and start:
            mask = torch.ones(len(token_ids), start + len(token_ids), dtype=torch.bool).tril(start)
        x = functional.embedding(token_ids, self.embedding)
        for layer, linears in enumerate(self.linears):
            attention_norm, ffn_norm = self.norms[layer]
            x = x + self._attend(self._normed(x, attention_norm), linears, cos, sin, layer, mask, seen, past, keep)
            normed = self._normed(x, ffn_norm)
            gated = functional.silu(linears["gate_proj"](normed)) * linears["up_proj"](normed)
            x = x + linears["down_proj"](gated)
        return self._normed(x, self.norm)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[N, H] → [N, V] float32."""
        return functional.linear(hidden, self.head).float()

    def _attend(
        self, x: torch.Tensor, linears: dict[str, Linear | LoraLinear], cos: torch.Tensor, sin: torch.Tensor,
        layer: int, mask: torch.Tensor | None, seen: Seen | None, past: Past | None, keep: Past | None,
    ) -> torch.Tensor:  # fmt: skip
        c, length = self.config, len(x)
        q = _rotate(linears["q_proj"](x).view(length, c.num_heads, c.head_dim), cos, sin)
        k = _rotate(linears["k_proj"](x).view(length, c.num_kv_heads, c.head_dim), cos, sin)
        v = linears["v_proj"](x).view(length, c.num_kv_heads, c.head_dim)
        if seen is not None and seen.wants_keys:
            seen.key_scales.append(k.float().flatten(1).abs().amax(1).clamp_min(1e-6).log())
        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)  # [heads, S, D]
        if past is not None:
            k, v = torch.cat([past.layers[layer][0], k], dim=1), torch.cat([past.layers[layer][1], v], dim=1)
        if keep is not None:
            keep.layers.append((k, v))
        k, v = (part.repeat_interleave(c.num_heads // c.num_kv_heads, dim=0) for part in (k, v))
        if seen is not None and seen.layer == layer and seen.rows is not None:
            seen.page_mass = _page_mass(q, k, seen.rows)
        out = functional.scaled_dot_product_attention(q[None], k[None], v[None], mask, is_causal=mask is None)[0]
        return linears["o_proj"](out.transpose(0, 1).reshape(length, -1))

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps)
        return (scaled * weight).to(self._dtype)

    def _rotary(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[S] → [S, 1, D/2] each."""
        dim = self.config.head_dim
        frequencies = 1 / self.config.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        angles = torch.outer(positions.float(), frequencies)
        return angles.cos()[:, None], angles.sin()[:, None]

    def _linear(self, stored: GgufFile, layer: int, name: str) -> torch.Tensor:
        weight = self._read(stored, f"blk.{layer}.{_STORED[name]}")
        if self.config.permuted_qk and name in ("q_proj", "k_proj"):
            heads = self.config.num_heads if name == "q_proj" else self.config.num_kv_heads
            rows, columns = weight.shape
            weight = weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
        return weight.contiguous()

    def _read(self, stored: GgufFile, name: str) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(stored.tensor(f"{name}.weight"))).to(self._dtype)


def _require_plain(config: TransformerConfig, files: ModelFiles) -> None:
    extras: dict[str, Any] = {
        "biases": config.qkv_bias or config.output_bias,
        "norms of heads": config.qk_norm,
        "stretched positions": config.rope_scaling is not None,
    }
    if present := [name for name, is_there in extras.items() if is_there]:
        raise UnsupportedModel(f"{files.path}: adapters cannot be trained on a model with {', '.join(present)} yet")


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def _page_mass(q: torch.Tensor, k: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Attention of some rows, the mean of all heads, summed over pages: [R, pages]."""
    length = k.shape[1]
    scores = q[:, rows].float() @ k.float().transpose(1, 2) / math.sqrt(q.shape[-1])  # [heads, R, S]
    future = torch.arange(length)[None, :] > rows[:, None]
    mass = scores.masked_fill(future, float("-inf")).softmax(-1).mean(0)  # [R, S]
    padded = functional.pad(mass, (0, -length % PAGE_TOKENS))
    return padded.view(len(rows), -1, PAGE_TOKENS).sum(-1)
