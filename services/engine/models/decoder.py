"""One forward pass of a Llama-like decoder over the rows of a step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from services.engine.kernels.batch import KvLayer, StepBatch
from services.engine.kernels.reference import ReferenceKernels
from services.engine.models.rotary import rotary_tables
from services.engine.stages import Part, Probe
from services.engine.weights.decoder_weights import DecoderWeights
from stagemesh.models.model_config import TransformerConfig


class Decoder:
    """Llama; Qwen2 with its bias on q, k and v; Qwen3 with its norm on q and k heads."""

    def __init__(
        self, config: TransformerConfig, weights: DecoderWeights, kernels: ReferenceKernels, num_positions: int
    ) -> None:
        self.config = config
        self._weights = weights
        self._kernels = kernels
        factors = weights.frequency_factors
        tables = rotary_tables(config, None if factors is None else factors.numpy(), num_positions)
        self._cos, self._sin = (torch.from_numpy(table).to(weights.norm.dtype) for table in tables)

    def forward(self, batch: StepBatch, kv: Sequence[KvLayer], probe: Probe) -> torch.Tensor:
        """Writes the rows' KV and gives the logits of `batch.sample_rows`: [R, V] float32."""
        ops, eps = self._kernels, self.config.rms_norm_eps
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]  # [N, D/2]
        x = ops.embed(batch.token_ids, self._weights.embedding)  # [N, H]
        probe.mark(Part.EMBED)
        for index, (layer, kv_layer) in enumerate(zip(self._weights.layers, kv, strict=True)):
            normed = ops.rms_norm(x, layer.attention_norm, eps)
            probe.mark(Part.NORM)
            x = x + self._attention(normed, index, kv_layer, batch, cos, sin)
            probe.mark(Part.ATTEND)
            normed = ops.rms_norm(x, layer.ffn_norm, eps)
            probe.mark(Part.NORM)
            x = x + ops.gated_mlp(normed, layer.gate_up, layer.down)
            probe.mark(Part.MLP)
        wanted = ops.rms_norm(x[batch.sample_rows], self._weights.norm, eps)  # [R, H]
        probe.mark(Part.NORM)
        return ops.linear(wanted, self._weights.head, None).float()

    def _attention(
        self,
        x: torch.Tensor,
        index: int,
        kv: KvLayer,
        batch: StepBatch,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> torch.Tensor:
        ops, c, layer = self._kernels, self.config, self._weights.layers[index]
        qkv = ops.linear(x, layer.qkv, layer.qkv_bias).view(len(x), -1, c.head_dim)
        q, k, v = torch.split(qkv, [c.num_heads, c.num_kv_heads, c.num_kv_heads], dim=1)  # [N, heads, D]
        if layer.q_norm is not None and layer.k_norm is not None:
            q = ops.rms_norm(q, layer.q_norm, c.rms_norm_eps)
            k = ops.rms_norm(k, layer.k_norm, c.rms_norm_eps)
        q, k = ops.rotate(q, cos, sin), ops.rotate(k, cos, sin)
        ops.write_kv(kv, batch.slots, k, v)
        attended = ops.attend(q, kv, batch, c.window(index))
        return ops.linear(attended.flatten(1), layer.output, layer.output_bias)
