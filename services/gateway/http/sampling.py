"""Sampling parameters of a body. Types are checked here; ranges by the gateway, for gRPC and HTTP alike."""

from __future__ import annotations

from services.gateway.http.fields import UINT32_MAX, Fields
from stagemesh.api.common.v1 import common_pb2

MAX_SEED = 2**63 - 1
MAX_LISTED = 1024
"""Entries of stop_token_ids and logit_bias."""

_NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")


def read_sampling(fields: Fields) -> common_pb2.SamplingParams:
    """All but the log-probabilities, which the two APIs spell differently. Raises InvalidRequest."""
    sampling = common_pb2.SamplingParams()
    for name in _NUMBERS:
        if (number := fields.number(name)) is not None:
            setattr(sampling, name, number)
    if (top_k := fields.integer("top_k", least=-1)) is not None:
        sampling.top_k = max(top_k, 0)  # -1 is how vLLM spells "all"
    if (seed := fields.integer("seed", most=MAX_SEED)) is not None:
        sampling.seed = seed
    if (min_tokens := fields.integer("min_tokens")) is not None:
        sampling.min_tokens = min_tokens
    if (max_tokens := _max_tokens(fields)) is not None:
        sampling.max_tokens = max_tokens
    sampling.n = fields.integer("n", least=1) or 1
    sampling.ignore_eos = fields.flag("ignore_eos") or False
    sampling.stop.extend(_stop(fields))
    sampling.stop_token_ids.extend(_token_ids(fields, "stop_token_ids"))
    for token_id, bias in _logit_bias(fields):
        sampling.logit_bias[token_id] = bias
    return sampling


def _max_tokens(fields: Fields) -> int | None:
    older = fields.integer("max_tokens", least=1)
    newer = fields.integer("max_completion_tokens", least=1)
    if older is not None and newer is not None and older != newer:
        fields.refuse("max_completion_tokens", "differs from max_tokens; send one of them")
    return older if newer is None else newer


def _stop(fields: Fields) -> list[str]:
    stop = fields.take("stop")
    return [stop] if isinstance(stop, str) else fields.strings("stop") or []


def _token_ids(fields: Fields, name: str) -> list[int]:
    values = fields.items(name) or []
    token_ids = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(token_ids) != len(values) or not all(0 <= token_id <= UINT32_MAX for token_id in token_ids):
        fields.refuse(name, "must be an array of token IDs (integers from 0)", "INVALID_TYPE")
    if len(token_ids) > MAX_LISTED:
        fields.refuse(name, f"takes up to {MAX_LISTED} token IDs")
    return token_ids


def _logit_bias(fields: Fields) -> list[tuple[int, float]]:
    biases = fields.child("logit_bias")
    members = fields.members("logit_bias") or {}
    if biases is None:
        return []
    if len(members) > MAX_LISTED:
        fields.refuse("logit_bias", f"takes up to {MAX_LISTED} tokens")
    pairs = []
    for name in members:
        if not (name.isascii() and name.isdecimal() and len(name) <= 10 and int(name) <= UINT32_MAX):
            biases.refuse(name, "is not a token ID; logit_bias maps token IDs to numbers")
        bias = biases.number(name)
        if bias is None:
            biases.refuse(name, "must be a number, not null", "INVALID_TYPE")
        pairs.append((int(name), bias))
    return pairs
