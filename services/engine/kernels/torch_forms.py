"""The forms that run in this build: PyTorch's fused operations where they are faster than the definition."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from services.engine.kernels.batch import DecodeGroup, KvLayer, Span, StepBatch
from services.engine.kernels.reference import ReferenceKernels


class TorchKernels(ReferenceKernels):
    """Query heads of one KV head are folded into the query length: `enable_gqa` is several times slower at decode."""

    name = "torch"

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, eps)

    def attend(self, queries: torch.Tensor, kv: KvLayer, batch: StepBatch) -> torch.Tensor:
        output = torch.empty_like(queries)
        for group in batch.groups:
            output[group.rows] = _attend_group(queries[group.rows], kv, group)
        for span in batch.spans:
            if span.num_rows > 1:
                output[span.row_start : span.row_end] = _attend_span(queries[span.row_start : span.row_end], kv, span)
        return output


def _gather(pool: torch.Tensor, pages: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """[pages, page size, KV, D], [B, P] → [B, KV, num_tokens, D], a view of a copy in token order."""
    num_sequences = pages.shape[0]
    tokens = pool.index_select(0, pages.flatten()).view(num_sequences, -1, *pool.shape[2:])  # [B, S, KV, D]
    return tokens[:, :num_tokens].transpose(1, 2)


def _attend_group(queries: torch.Tensor, kv: KvLayer, group: DecodeGroup) -> torch.Tensor:
    num_sequences, _, head_dim = queries.shape  # [B, heads, D]
    keys = _gather(kv.keys, group.pages, group.num_tokens)
    values = _gather(kv.values, group.pages, group.num_tokens)
    folded = queries.view(num_sequences, keys.shape[1], -1, head_dim)  # [B, KV, heads / KV, D]
    mask = None if group.mask is None else group.mask.expand(-1, 1, folded.shape[2], -1)
    return F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask).reshape(queries.shape)


def _attend_span(queries: torch.Tensor, kv: KvLayer, span: Span) -> torch.Tensor:
    num_rows, num_heads, head_dim = queries.shape  # [T, heads, D]
    pages = span.pages.unsqueeze(0)
    keys, values = _gather(kv.keys, pages, span.end), _gather(kv.values, pages, span.end)  # [1, KV, S, D]
    num_groups = num_heads // keys.shape[1]
    folded = queries.view(num_rows, keys.shape[1], num_groups, head_dim).permute(1, 2, 0, 3)  # [KV, G, T, D]
    rows = torch.arange(span.start, span.end).unsqueeze(1)
    mask = (torch.arange(span.end).unsqueeze(0) <= rows).repeat(num_groups, 1)  # [G × T, S]
    attended = F.scaled_dot_product_attention(
        folded.reshape(1, keys.shape[1], num_groups * num_rows, head_dim), keys, values, attn_mask=mask
    )  # [1, KV, G × T, D]
    return attended.view(keys.shape[1], num_groups, num_rows, head_dim).permute(2, 0, 1, 3).reshape(queries.shape)
