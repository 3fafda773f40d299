"""Changes to logits before a token is chosen: penalties, bias, forbidden tokens, filters. All in place on one row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.engine.sampling_params import SamplingParams

NUCLEUS_SIZES = (64, 2048)
"""How many of the most likely tokens are looked at before the whole vocabulary is sorted."""

Row = npt.NDArray[np.float32]
"""Logits of one position, [V]."""


def apply_penalties(row: Row, params: SamplingParams, tokens: Sequence[int], num_prompt: int) -> None:
    """Repetition penalty over prompt and output, presence and frequency penalty over the output (as vLLM)."""
    if params.repetition_penalty != 1:
        seen = np.unique(np.asarray(tokens, dtype=np.int64))
        values = row[seen]
        row[seen] = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if len(tokens) > num_prompt and (params.presence_penalty or params.frequency_penalty):
        seen, counts = np.unique(np.asarray(tokens[num_prompt:], dtype=np.int64), return_counts=True)
        row[seen] -= (params.presence_penalty + params.frequency_penalty * counts).astype(np.float32)


def apply_bias(row: Row, params: SamplingParams) -> None:
    for token, bias in params.logit_bias.items():
        row[token] += bias


def forbid(row: Row, tokens: Sequence[int]) -> None:
    row[list(tokens)] = -np.inf


def apply_allowed(row: Row, allowed: npt.NDArray[np.bool_]) -> None:
    """Forbid what a grammar does not allow; rows beyond the tokenizer's vocabulary are never allowed."""
    num_known = min(len(allowed), len(row))  # the mask is padded to whole words
    row[:num_known][~allowed[:num_known]] = -np.inf
    row[num_known:] = -np.inf


def support(scaled: npt.NDArray[np.float64], params: SamplingParams) -> npt.NDArray[np.int64]:
    """IDs of the tokens that may be drawn, ascending, after min_p, top_k and top_p in vLLM's order.

    `scaled` [V] are logits divided by the temperature; -inf marks forbidden tokens.
    """
    lowest = scaled.max() + np.log(params.min_p) if params.min_p > 0 else -np.inf
    kept = np.flatnonzero((scaled >= lowest) & (scaled > -np.inf))
    if 0 < params.top_k < len(kept):
        values = scaled[kept]
        kept = kept[values >= np.partition(values, -params.top_k)[-params.top_k]]
    return kept if params.top_p == 1 else _nucleus(kept, scaled[kept], params.top_p)


def _nucleus(tokens: npt.NDArray[np.int64], values: npt.NDArray[np.float64], top_p: float) -> npt.NDArray[np.int64]:
    """The most likely `tokens` that hold `top_p` of the mass together, ascending; ties go to the lower ID."""
    weights = np.exp(values - values.max())
    wanted = top_p * weights.sum()
    for size in (*NUCLEUS_SIZES, len(values)):  # sorting the whole vocabulary costs ten times as much
        best = np.flatnonzero(values >= np.partition(values, -size)[-size]) if size < len(values) else slice(None)
        if size >= len(values) or weights[best].sum() > wanted:
            break
    order = np.lexsort((tokens[best], -values[best]))
    sorted_weights = weights[best][order]
    before = np.cumsum(sorted_weights) - sorted_weights
    return np.sort(tokens[best][order[before < wanted]])
