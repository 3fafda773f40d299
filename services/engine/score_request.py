"""From a Score message to sequences: every field checked."""

from __future__ import annotations

import os
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.block_manager import PAGE_SIZE
from services.engine.config import ScoreConfig
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.page_table import Owner, PublicPrefix
from services.engine.request import ComputedBy, RequestLimits
from services.engine.sampling_params import SamplingParams
from services.engine.score_branches import ScoreBranches
from services.engine.scoring import Scoring
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
        too_high = f"token_ids must be below {limits.vocab_size}, the vocabulary's size"
        raise InvalidRequest("INVALID_PARAMETER", too_high, field="token_ids")
    if max(map(max, (continuation.token_ids for continuation in request.continuations))) >= limits.vocab_size:
        raise _invalid(f"their tokens must be below {limits.vocab_size}, the vocabulary's size")


@dataclass(frozen=True)
class ScoredSequences:
    """The sequences of one call."""

    trunk: Sequence
    branches: ScoreBranches | None
    """None for a single continuation, which the trunk scores to its end."""

    def all(self) -> list[Sequence]:
        """Each before its branches."""
        return _with_branches(self.trunk)

    def steps(self) -> list[int]:
        """Of the engine, that computed any of them."""
        return sorted(set().union(*(_scoring(sequence).steps for sequence in self.all())))

    def values(self) -> list[list[float]]:
        """For each continuation, what its tokens are worth; when all have ended."""
        if self.branches is None:
            return [[value for row in _scoring(self.trunk).values for value in row]]
        return self.branches.values()


def scored_sequences(
    request: engine_pb2.ScoreRequest, by: ComputedBy, call_id: str, deadline_s: float
) -> ScoredSequences:
    """A trunk for the prompt and branches for the continuations; a single continuation is one with the prompt.

    Without a salt of the caller they share pages under one of their own.
    """
    salt = request.cache_salt or os.urandom(SALT_BYTES)
    owner = Owner(request.tenant_id, salt, by.precision, request.kv.epoch, by.adapter_label)
    public = PublicPrefix(request.kv.public_salt, request.kv.public_tokens // PAGE_SIZE)
    prompt = list(request.token_ids)

    def sequence(name: str, given: Seq[int], scoring: Scoring) -> Sequence:
        return Sequence(
            sequence_id=f"{call_id}{name}",
            owner=owner,
            public=public,
            kv=SequenceKv(request.kv),
            mode=by.mode,
            adapter=by.adapter,
            tokens=[*prompt, *given],
            num_prompt=len(prompt),
            num_delivered=0,
            params=GREEDY,
            max_total_tokens=len(prompt) + len(given),
            deadline_s=deadline_s,
            scoring=scoring,
        )

    continuations = [list(continuation.token_ids) for continuation in request.continuations]
    if len(continuations) == 1:
        (tokens,) = continuations
        trunk = sequence("", tokens[:-1], Scoring(len(prompt) - 1, [[token] for token in tokens]))
        branches = None
    else:
        branches = ScoreBranches(continuations, len(prompt), sequence)
        trunk = sequence("", [], branches.root)
    trunk.table.digests(trunk.tokens, len(prompt) // PAGE_SIZE)  # here, so that no step waits for it
    return ScoredSequences(trunk, branches)


def _with_branches(sequence: Sequence) -> list[Sequence]:
    return [sequence, *(each for branch in _scoring(sequence).branches for each in _with_branches(branch))]


def _scoring(sequence: Sequence) -> Scoring:
    assert sequence.scoring is not None, "not a scored sequence"
    return sequence.scoring


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest("INVALID_PARAMETER", message, field="continuations")
