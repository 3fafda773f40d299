"""What a step tells the kernels about its rows: where each token stands and which pages it sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Span:
    """Consecutive rows [row_start, row_end) of one sequence: its tokens [start, start + rows)."""

    row_start: int
    row_end: int
    start: int
    """Position of the first row in the sequence."""
    pages: torch.Tensor
    """[P] int64: the sequence's pages, covering at least start + rows tokens."""

    @property
    def num_rows(self) -> int:
        return self.row_end - self.row_start

    @property
    def end(self) -> int:
        return self.start + self.num_rows


@dataclass(frozen=True, kw_only=True)
class DecodeGroup:
    """One token each of B sequences of similar length, so that they attend as one padded batch."""

    rows: torch.Tensor
    """[B] int64"""
    pages: torch.Tensor
    """[B, P] int64, padded with the padding page"""
    mask: torch.Tensor | None
    """[B, 1, 1, S] bool, S = P × page size: what each row may see; None if it is everything."""
    num_tokens: int
    """S, or the exact context length of a single sequence."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """All rows of one step: N tokens, decoding sequences first."""

    token_ids: torch.Tensor
    """[N] int64"""
    positions: torch.Tensor
    """[N] int64"""
    slots: torch.Tensor
    """[N] int64: page × page size + offset, where each token's K and V go"""
    spans: tuple[Span, ...]
    """One for each sequence, in row order."""
    groups: tuple[DecodeGroup, ...]
    """The spans of one row, grouped."""
    sample_rows: torch.Tensor
    """[R] int64: rows whose logits are wanted"""


@dataclass(frozen=True)
class KvLayer:
    """Keys and values of one layer, [pages, page size, num_kv_heads, head_dim] each."""

    keys: torch.Tensor
    values: torch.Tensor
