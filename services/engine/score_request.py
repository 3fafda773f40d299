"""From a Score message to sequences: every field checked."""

from __future__ import annotations

import os

from services.engine.block_manager import PAGE_SIZE
from services.engine.config import ScoreConfig
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.page_table import Owner, PublicPrefix
from services.engine.request import ComputedBy, RequestLimits
from services.engine.sampling_params import SamplingParams
from services.engine.scoring import scored
from services.engine.sequence import Sequence
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import InvalidRequest

GREEDY = SamplingParams(temperature=0.0)
"""Nothing is drawn."""
SALT_BYTES = 16


def check_score(request: engine_pb2.ScoreRequest, limits: RequestLimits, bounds: ScoreConfig) -> None:
    """Check everything that needs no work. Raises InvalidRequest that names the field."""
    if not request.token_ids:
        raise InvalidRequest("EMPTY_PROMPT", "the prompt has no tokens", field="token_ids")
    if not 0 < len(request.continuations) <= bounds.max_continuations:
        raise _invalid(f"give 1 to {bounds.max_continuations} continuations, not {len(request.continuations)}")
    lengths = [len(continuation.token_ids) for continuation in request.continuations]
    if 0 in lengths:
        raise _invalid(f"continuation {lengths.index(0)} has no tokens")
    if sum(lengths) > bounds.max_tokens:
        raise _invalid(f"the continuations have {sum(lengths)} tokens; at most {bounds.max_tokens} are scored at once")
    if len(request.token_ids) + max(lengths) > limits.max_total_tokens:
        longest = f"the prompt has {len(request.token_ids)} tokens and the longest continuation {max(lengths)}"
        raise InvalidRequest("PROMPT_TOO_LONG", f"{longest}; {limits.max_total_tokens} fit", field="token_ids")
    if max(request.token_ids) >= limits.vocab_size:
        raise InvalidRequest(
            "INVALID_PARAMETER",
            f"token_ids must be below {limits.vocab_size}, the vocabulary's size",
            field="token_ids",
        )
    if max(map(max, (continuation.token_ids for continuation in request.continuations))) >= limits.vocab_size:
        raise _invalid(f"their tokens must be below {limits.vocab_size}, the vocabulary's size")


def scored_sequences(
    request: engine_pb2.ScoreRequest, by: ComputedBy, call_id: str, deadline_s: float
) -> list[Sequence]:
    """A sequence for each continuation. Without a salt of the caller they share pages under one of their own."""
    salt = request.cache_salt or os.urandom(SALT_BYTES)
    owner = Owner(request.tenant_id, salt, by.precision, request.kv.epoch, by.adapter_label)
    public = PublicPrefix(request.kv.public_salt, request.kv.public_tokens // PAGE_SIZE)
    prompt, num_prompt = list(request.token_ids), len(request.token_ids)
    sequences: list[Sequence] = []
    for number, continuation in enumerate(request.continuations):
        sequence = Sequence(
            sequence_id=f"{call_id}/{number}",
            owner=owner,
            public=public,
            kv=SequenceKv(request.kv),
            mode=by.mode,
            adapter=by.adapter,
            tokens=[*prompt, *continuation.token_ids[:-1]],
            num_prompt=num_prompt,
            num_delivered=0,
            params=GREEDY,
            max_total_tokens=num_prompt + len(continuation.token_ids) - 1,
            deadline_s=deadline_s,
            scoring=scored(continuation.token_ids, num_prompt),
        )
        num_pages = num_prompt // PAGE_SIZE
        if sequences:  # the names of the prompt's pages are computed once
            sequence.table.adopt_names(sequences[0].table, num_pages)
        else:
            sequence.table.digests(prompt, num_pages)
        sequences.append(sequence)
    return sequences


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest("INVALID_PARAMETER", message, field="continuations")
