"""Choose the next token of each sequence of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.engine.logits import Row, apply_allowed, apply_bias, apply_penalties, forbid, support
from services.engine.logprobs import TokenLogprobs, token_logprobs
from services.engine.noise import gumbel, noise_key
from services.engine.sequence import Sequence
from stagemesh.runtime.errors import Internal


@dataclass(frozen=True)
class Sampled:
    """The choice for one sequence."""

    token: int
    logprobs: TokenLogprobs | None


def sample(row: npt.NDArray[np.float32], sequence: Sequence, end_tokens: frozenset[int]) -> Sampled:
    """The next token of `sequence` from its logits `row` [V], which is left as it was.

    `end_tokens` are those that end it; they are forbidden until `min_tokens` are there.
    Raises Internal when the model produced no finite logits.
    """
    if not np.isfinite(row).all():
        raise Internal("NON_FINITE_LOGITS", "the model produced values that are not finite at this position")
    params = sequence.params
    token = _choose(_modified(row, sequence, end_tokens), sequence)
    return Sampled(token, None if params.logprobs is None else token_logprobs(row, token, params.logprobs))


def _modified(row: Row, sequence: Sequence, end_tokens: frozenset[int]) -> Row:
    params = sequence.params
    below_minimum = bool(end_tokens) and sequence.num_output < params.min_tokens
    if not (params.has_penalties or params.logit_bias or below_minimum or sequence.constraint):
        return row
    row = row.copy()
    if params.has_penalties:
        apply_penalties(row, params, sequence.tokens, sequence.num_prompt)
    apply_bias(row, params)
    if sequence.constraint is not None:
        apply_allowed(row, sequence.constraint.allowed())
    if below_minimum:
        permitted = row.copy()
        forbid(row, sorted(end_tokens))
        if np.isneginf(row).all():  # a grammar that can only end outranks min_tokens
            return permitted
    return row


def _choose(row: Row, sequence: Sequence) -> int:
    params = sequence.params
    if params.greedy:
        return int(row.argmax())
    scaled = row.astype(np.float64) / params.temperature
    tokens = support(scaled, params)
    noise = gumbel(noise_key(params.seed, sequence.num_output), tokens)
    return int(tokens[(scaled[tokens] + noise).argmax()])
