"""The definition of every operation, in plain PyTorch. Slow where plainness asks for it.

N rows (tokens of a step), H hidden size, D head size, S context length.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from services.engine.kernels.batch import KvLayer, StepBatch


class ReferenceKernels:
    """Forms that override a method must agree with it to the tolerance of their number format."""

    name = "reference"

    def embed(self, token_ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """[N], [V, H] → [N, H]"""
        return F.embedding(token_ids, table)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """[..., H], [H] → [..., H]; the mean square in float32."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        return scaled.to(x.dtype) * weight

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """[N, I], [O, I], [O] → [N, O]"""
        return F.linear(x, weight, bias)

    def lora(self, y: torch.Tensor, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
        """What an adapter makes of y, the result of a linear operation on x: [N, O], [N, I], [R, I], [O, R] → [N, O]"""
        return y + F.linear(F.linear(x, a) * scale, b)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotary embedding of the pairs (i, i + D/2): [N, heads, D], [N, D/2] twice → [N, heads, D]"""
        first, second = x.chunk(2, dim=-1)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def write_kv(self, kv: KvLayer, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store [N, num_kv_heads, D] at `slots` [N]. Writing the same position again gives the same bytes."""
        kv.keys.flatten(0, 1).index_copy_(0, slots, keys)
        kv.values.flatten(0, 1).index_copy_(0, slots, values)

    def attend(self, queries: torch.Tensor, kv: KvLayer, batch: StepBatch, window: int) -> torch.Tensor:
        """Causal grouped-query attention of each row over its sequence's pages: [N, heads, D] → [N, heads, D]

        A row sees the last `window` tokens, itself included; 0: all.
        """
        output = torch.empty_like(queries)
        scale = queries.shape[-1] ** -0.5
        for span in batch.spans:
            keys = kv.keys[span.pages].flatten(0, 1)  # [S, num_kv_heads, D]
            values = kv.values[span.pages].flatten(0, 1)
            num_groups = queries.shape[1] // keys.shape[1]
            for row in range(span.row_start, span.row_end):
                length = span.start + row - span.row_start + 1
                seen = slice(max(0, length - window) if window else 0, length)
                k = keys[seen].repeat_interleave(num_groups, dim=1).float()  # [length, heads, D]
                v = values[seen].repeat_interleave(num_groups, dim=1).float()
                scores = torch.einsum("hd,shd->hs", queries[row].float(), k) * scale
                output[row] = torch.einsum("hs,shd->hd", scores.softmax(-1), v).to(queries.dtype)
        return output

    def gated_mlp(self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        """down(silu(gate(x)) * up(x)): [N, H], [2F, H], [H, F] → [N, H]"""
        gate, up = F.linear(x, gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, down)
