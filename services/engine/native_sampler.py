"""The sampler on the native kernels: a step's rows in one call, and no row of logits touched in Python.

Penalties, biases and `min_tokens` change a copy of the row in Python first; they are rare.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.address import address_of
from services.engine.kernels.native.c_interface import CDraw
from services.engine.kernels.native.library import KernelLibrary
from services.engine.logits import Row
from services.engine.logprobs import TokenLogprobs
from services.engine.noise import noise_key
from services.engine.sampler import Draw, Sampled, check_finite, modified, sampling_failed
from stagemesh.runtime.errors import Internal, StagemeshError
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

NOT_FINITE = -1
NOTHING_ALLOWED = -2
"""In the place of a token; see sampling.h."""


class NativeSampler:
    """Chooses what `sample` would choose."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library
        self._draws = (CDraw * 0)()
        self._tokens = np.empty(0, np.int32)

    def sample_all(self, draws: Seq[Draw]) -> list[Sampled | StagemeshError]:
        if not draws:
            return []
        self._make_room(len(draws))
        results: dict[int, StagemeshError] = {}
        kept_alive: list[object] = []
        for index, draw in enumerate(draws):
            try:
                kept_alive += _fill(self._draws[index], draw)
            except StagemeshError as error:
                results[index] = error
            except Exception:
                log.exception("sampling failed", sequence_id=draw.sequence.sequence_id)
                results[index] = sampling_failed()
            if index in results:  # something to draw from, whose token nobody looks at
                kept_alive += _fill_plain(self._draws[index], draw.row)
        are_short = all(draw.sequence.params.greedy for draw in draws)
        calls = self._library.short_calls if are_short else self._library.c
        calls.sm_draw_tokens(self._draws, len(draws), len(draws[0].row), self._tokens.ctypes.data)
        tokens = self._tokens[: len(draws)].tolist()
        return [
            results.get(index) or self._sampled(draw, token)
            for index, (draw, token) in enumerate(zip(draws, tokens, strict=True))
        ]

    def logprobs(self, row: Row, token: int, num_top: int) -> TokenLogprobs:
        """As `token_logprobs`."""
        logprob = ctypes.c_double()
        num_top = min(num_top, len(row))
        tokens, values = np.empty(num_top, np.int32), np.empty(num_top, np.float64)
        failed = self._library.c.sm_logprobs(
            address_of(row), len(row), token, num_top, ctypes.byref(logprob), tokens.ctypes.data, values.ctypes.data
        )
        if failed:
            raise MemoryError("the sampler found no memory")
        return TokenLogprobs(token, logprob.value, tuple(zip(tokens.tolist(), values.tolist(), strict=True)))

    def _make_room(self, num_draws: int) -> None:
        if num_draws > len(self._draws):
            self._draws = (CDraw * num_draws)()
            self._tokens = np.empty(num_draws, np.int32)

    def _sampled(self, draw: Draw, token: int) -> Sampled | StagemeshError:
        if token == NOT_FINITE:
            return Internal("NON_FINITE_LOGITS", "the model produced values that are not finite at this position")
        if token < 0:
            reason = "no token may be chosen" if token == NOTHING_ALLOWED else "there is no memory"
            return Internal("SAMPLING_FAILED", f"{reason} at this position")
        num_top = draw.num_logprobs
        try:
            return Sampled(token, None if num_top is None else self.logprobs(draw.row, token, num_top))
        except MemoryError:
            return Internal("SAMPLING_FAILED", "there is no memory at this position")


def _fill(target: CDraw, draw: Draw) -> list[object]:
    """Describe the draw; gives what must live until it is done."""
    params, sequence = draw.sequence.params, draw.sequence
    below_minimum = bool(draw.end_tokens) and sequence.num_output < params.min_tokens
    if params.has_penalties or params.logit_bias or below_minimum:
        check_finite(draw.row)
        row = modified(draw.row, sequence, draw.end_tokens)
        kept_alive = _fill_plain(target, row)
        target.is_modified = 1
    else:
        kept_alive = _fill_plain(target, draw.row)
        if sequence.constraint is not None:
            bits: npt.NDArray[np.uint8] = sequence.constraint.allowed_bits()
            target.allowed, target.num_allowed = bits.ctypes.data, 8 * len(bits)
            kept_alive.append(bits)
    target.temperature = params.temperature
    if not params.greedy:
        target.top_k, target.top_p, target.min_p = params.top_k, params.top_p, params.min_p
        target.noise_key = noise_key(params.seed, sequence.num_output)
    return kept_alive


def _fill_plain(target: CDraw, row: Row) -> list[object]:
    assert row.dtype == np.float32, row.dtype
    target.logits, target.allowed, target.is_modified, target.temperature = address_of(row), None, 0, 0.0
    return [row]
