"""Choose the next token of each sequence of a step: the definition, one row at a time in numpy."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.engine.logits import Row, apply_allowed, apply_bias, apply_penalties, forbid, support
from services.engine.logprobs import TokenLogprobs, token_logprobs
from services.engine.noise import gumbel, noise_key
from services.engine.sequence import Sequence
from stagemesh.runtime.errors import Internal, StagemeshError
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class Sampled:
    """The choice for one sequence."""

    token: int
    logprobs: TokenLogprobs | None


@dataclass(frozen=True)
class Draw:
    """What is drawn from: the logits `row` [V] of the next token of `sequence`."""

    row: Row
    sequence: Sequence
    end_tokens: frozenset[int]
    """Those that end the sequence; they are forbidden until `min_tokens` are there."""
    wants_logprobs: bool = True
    """Whether the log-probabilities that the sequence reports are computed, if it reports any."""

    @property
    def num_logprobs(self) -> int | None:
        """How many of the likeliest tokens to report; None: nothing."""
        return self.sequence.params.logprobs if self.wants_logprobs else None


class Sampler(Protocol):
    """Chooses tokens as `sample` defines it."""

    def sample_all(self, draws: Seq[Draw]) -> list[Sampled | StagemeshError]:
        """A choice for each, or why there is none; rows are left as they were."""

    def logprobs(self, row: Row, token: int, num_top: int) -> TokenLogprobs:
        """As `token_logprobs`."""


class ReferenceSampler:
    """`sample` for each."""

    def sample_all(self, draws: Seq[Draw]) -> list[Sampled | StagemeshError]:
        return [try_sample(draw) for draw in draws]

    def logprobs(self, row: Row, token: int, num_top: int) -> TokenLogprobs:
        return token_logprobs(row, token, num_top)


def try_sample(draw: Draw) -> Sampled | StagemeshError:
    """`sample`, with its error as a value: one sequence's fault is not the batch's."""
    try:
        return sample(draw)
    except StagemeshError as error:
        return error
    except Exception:
        log.exception("sampling failed", sequence_id=draw.sequence.sequence_id)
        return sampling_failed()


def sampling_failed() -> StagemeshError:
    """In the place of an unexpected exception, which is logged."""
    return Internal("SAMPLING_FAILED", "choosing a token failed; the log has more")


def sample(draw: Draw) -> Sampled:
    """The next token of a sequence from its logits, which are left as they were.

    Raises Internal when the model produced no finite logits.
    """
    check_finite(draw.row)
    token = _choose(modified(draw.row, draw.sequence, draw.end_tokens), draw.sequence)
    num_top = draw.num_logprobs
    return Sampled(token, None if num_top is None else token_logprobs(draw.row, token, num_top))


def check_finite(row: Row) -> None:
    """Raises Internal."""
    if not np.isfinite(row).all():
        raise Internal("NON_FINITE_LOGITS", "the model produced values that are not finite at this position")


def modified(row: Row, sequence: Sequence, end_tokens: frozenset[int]) -> Row:
    """`row` itself, or a copy after penalties, bias, grammar and `min_tokens`, with -inf where a token is forbidden."""
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
