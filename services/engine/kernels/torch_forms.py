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

    def attend(self, queries: torch.Tensor, kv: KvLayer, batch: StepBatch, window: int) -> torch.Tensor:
        output = torch.empty_like(queries)
        for group in batch.groups:
            mask = _group_mask(group, batch.positions[group.rows], window)
            output[group.rows] = _attend_group(queries[group.rows], kv, group, mask)
        for span in batch.spans:
            if span.num_rows > 1:
                rows = slice(span.row_start, span.row_end)
                output[rows] = _attend_span(queries[rows], kv, span, window)
        return output


def _gather(pool: torch.Tensor, pages: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """[pages, page size, KV, D], [B, P] → [B, KV, num_tokens, D], a view of a copy in token order."""
    num_sequences = pages.shape[0]
    tokens = pool.index_select(0, pages.flatten()).view(num_sequences, -1, *pool.shape[2:])  # [B, S, KV, D]
    return tokens[:, :num_tokens].transpose(1, 2)


def _group_mask(group: DecodeGroup, positions: torch.Tensor, window: int) -> torch.Tensor | None:
    """What each of B rows may see, [B, 1, 1, S]; None if it is everything."""
    if window == 0 or int(positions.max()) < window:
        return group.mask
    inside = torch.arange(group.num_tokens) > (positions - window).view(-1, 1, 1, 1)
    return inside if group.mask is None else group.mask & inside


def _attend_group(queries: torch.Tensor, kv: KvLayer, group: DecodeGroup, mask: torch.Tensor | None) -> torch.Tensor:
    num_sequences, _, head_dim = queries.shape  # [B, heads, D]
    keys = _gather(kv.keys, group.pages, group.num_tokens)
    values = _gather(kv.values, group.pages, group.num_tokens)
    folded = queries.view(num_sequences, keys.shape[1], -1, head_dim)  # [B, KV, heads / KV, D]
    mask = None if mask is None else mask.expand(-1, 1, folded.shape[2], -1)
    return F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask).reshape(queries.shape)


def _attend_span(queries: torch.Tensor, kv: KvLayer, span: Span, window: int) -> torch.Tensor:
    num_rows, num_heads, head_dim = queries.shape  # [T, heads, D]
    pages = span.pages.unsqueeze(0)
    keys, values = _gather(kv.keys, pages, span.end), _gather(kv.values, pages, span.end)  # [1, KV, S, D]
    num_groups = num_heads // keys.shape[1]
    folded = queries.view(num_rows, keys.shape[1], num_groups, head_dim).permute(1, 2, 0, 3)  # [KV, G, T, D]
    rows = torch.arange(span.start, span.end).unsqueeze(1)
    tokens = torch.arange(span.end).unsqueeze(0)
    seen = (tokens <= rows) & (tokens > rows - window) if window else tokens <= rows
    mask = seen.repeat(num_groups, 1)  # [G × T, S]
    attended = F.scaled_dot_product_attention(
        folded.reshape(1, keys.shape[1], num_groups * num_rows, head_dim), keys, values, attn_mask=mask
    )  # [1, KV, G × T, D]
    return attended.view(keys.shape[1], num_groups, num_rows, head_dim).permute(2, 0, 1, 3).reshape(queries.shape)
