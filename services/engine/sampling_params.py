"""How one sequence is sampled, validated once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest

MAX_LOGPROBS = 20
MAX_STOP_STRINGS = 16
MAX_STOP_BYTES = 1024
MAX_STOP_TOKENS = 64
MAX_LOGIT_BIASES = 1024


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Names and meanings as in OpenAI and vLLM; defaults leave the model's distribution as it is."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 for all."""
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    max_tokens: int = 1 << 30
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    """How many of the most likely tokens to report; None reports nothing at all."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    ignore_eos: bool = False

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def has_penalties(self) -> bool:
        return self.presence_penalty != 0 or self.frequency_penalty != 0 or self.repetition_penalty != 1


FLOAT_RANGES: Mapping[str, tuple[float, float, bool]] = {
    "temperature": (0.0, 100.0, True),
    "top_p": (0.0, 1.0, False),
    "min_p": (0.0, 1.0, True),
    "presence_penalty": (-2.0, 2.0, True),
    "frequency_penalty": (-2.0, 2.0, True),
    "repetition_penalty": (0.0, 10.0, False),
}
"""Lowest value, highest value, whether the lowest itself is allowed."""


def parse_sampling(message: common_pb2.SamplingParams, *, vocab_size: int) -> SamplingParams:
    """Check every field. Raises InvalidRequest that names the field."""
    given = {descriptor.name for descriptor, _ in message.ListFields()}
    values: dict[str, Any] = {}
    for name, (low, high, closed) in FLOAT_RANGES.items():
        if name in given:
            values[name] = _checked_float(name, getattr(message, name), low, high, closed)
    for name in ("top_k", "seed", "max_tokens", "min_tokens", "logprobs"):
        if name in given:
            values[name] = int(getattr(message, name))
    params = SamplingParams(
        **values,
        stop=tuple(message.stop),
        stop_token_ids=frozenset(message.stop_token_ids),
        logit_bias=dict(message.logit_bias),
        ignore_eos=message.ignore_eos,
    )
    _check_counts(params, message)
    _check_tokens(params, vocab_size)
    _check_stop(params)
    return params


def _invalid(name: str, message: str) -> InvalidRequest:
    return InvalidRequest("INVALID_PARAMETER", f"{name} {message}", field=f"sampling.{name}")


def _checked_float(name: str, value: float, low: float, high: float, closed: bool) -> float:
    if not math.isfinite(value) or not low <= value <= high or (value == low and not closed):
        raise _invalid(name, f"must be a number {'from' if closed else 'above'} {low:g} to {high:g}, not {value:g}")
    return value


def _check_counts(params: SamplingParams, message: common_pb2.SamplingParams) -> None:
    if params.max_tokens < 1:
        raise _invalid("max_tokens", "must be at least 1")
    if params.min_tokens > params.max_tokens:
        raise _invalid("min_tokens", f"must not exceed max_tokens ({params.max_tokens})")
    if params.logprobs is not None and params.logprobs > MAX_LOGPROBS:
        raise _invalid("logprobs", f"must be at most {MAX_LOGPROBS}")
    if message.n > 1:
        raise _invalid("n", "must be 1 here: each choice is a sequence of its own")
    if not params.greedy and not message.HasField("seed"):
        raise _invalid("seed", "must be set unless temperature is 0")


def _check_tokens(params: SamplingParams, vocab_size: int) -> None:
    if len(params.stop_token_ids) > MAX_STOP_TOKENS:
        raise _invalid("stop_token_ids", f"may hold at most {MAX_STOP_TOKENS} tokens")
    if any(token >= vocab_size for token in params.stop_token_ids):
        raise _invalid("stop_token_ids", f"must be below the vocabulary's size ({vocab_size})")
    if len(params.logit_bias) > MAX_LOGIT_BIASES:
        raise _invalid("logit_bias", f"may hold at most {MAX_LOGIT_BIASES} tokens")
    for token, bias in params.logit_bias.items():
        if token >= vocab_size:
            raise _invalid("logit_bias", f"names token {token}; the vocabulary has {vocab_size}")
        if not math.isfinite(bias) or abs(bias) > 100:
            raise _invalid("logit_bias", f"must lie from -100 to 100, not {bias:g}")


def _check_stop(params: SamplingParams) -> None:
    if len(params.stop) > MAX_STOP_STRINGS:
        raise _invalid("stop", f"may hold at most {MAX_STOP_STRINGS} strings")
    for text in params.stop:
        if not 0 < len(text.encode()) <= MAX_STOP_BYTES:
            raise _invalid("stop", f"must hold strings of 1 to {MAX_STOP_BYTES} bytes")
