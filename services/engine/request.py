"""From a Submit message to a sequence: every field checked, delivered tokens replayed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from services.engine.adapter import LoadedAdapter
from services.engine.block_manager import PAGE_SIZE
from services.engine.ending import Ending, take_token
from services.engine.jump_ahead import jump
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.modes import Mode
from services.engine.page_table import Owner, PublicPrefix
from services.engine.sampling_params import SamplingParams, parse_sampling
from services.engine.sequence import Constraint, Sequence
from services.engine.stop import StopMatcher
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import InvalidRequest, Precondition
from stagemesh.runtime.faults import ENGINE_STAGES, Fault, board, parse_faults

MAX_ID_BYTES = 256
IDENTITY_FIELDS = ("model", "revision", "tokenizer_hash", "precision", "kv_layout")


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    vocab_size: int
    max_total_tokens: int
    """Prompt and output: the context length, or what the KV pool holds if that is less."""
    max_output_tokens: int | None
    jumps_ahead: bool = False


@dataclass(frozen=True, kw_only=True)
class ComputedBy:
    """What computes a request."""

    mode: Mode | None = None
    precision: str = ""
    """What `mode` computes with, as `ModelIdentity.precision` says it."""
    adapter: LoadedAdapter | None = None

    @property
    def adapter_label(self) -> str:
        return "" if self.adapter is None else self.adapter.label


def check_identity(expected: common_pb2.ModelIdentity, actual: common_pb2.ModelIdentity) -> None:
    """Raises Precondition when the caller expects another model."""
    for name in IDENTITY_FIELDS:
        wanted, has = getattr(expected, name), getattr(actual, name)
        if wanted and wanted != has:
            raise Precondition(
                "MODEL_MISMATCH", f"this engine's {name} is {has!r}, not {wanted!r}", field=f"model.{name}"
            )


def check_submit(submit: engine_pb2.Submit, limits: RequestLimits) -> SamplingParams:
    """Check everything that needs no work. Raises InvalidRequest that names the field."""
    if not 0 < len(submit.sequence_id.encode()) <= MAX_ID_BYTES:
        raise InvalidRequest(
            "INVALID_PARAMETER", f"sequence_id must have 1 to {MAX_ID_BYTES} bytes", field="sequence_id"
        )
    if not submit.token_ids:
        raise InvalidRequest("EMPTY_PROMPT", "the prompt has no tokens", field="token_ids")
    if len(submit.token_ids) >= limits.max_total_tokens:
        raise InvalidRequest(
            "PROMPT_TOO_LONG",
            f"the prompt has {len(submit.token_ids)} tokens; {limits.max_total_tokens - 1} leave room for an answer",
            field="token_ids",
        )
    for name in ("token_ids", "delivered_token_ids"):
        if max(getattr(submit, name), default=0) >= limits.vocab_size:
            raise InvalidRequest(
                "INVALID_PARAMETER", f"{name} must be below the vocabulary's size ({limits.vocab_size})", field=name
            )
    return parse_sampling(submit.sampling, vocab_size=limits.vocab_size)


def max_output_tokens(submit: engine_pb2.Submit, params: SamplingParams, limits: RequestLimits) -> int:
    """What max_tokens, the configuration and the context leave for the answer."""
    room = limits.max_total_tokens - len(submit.token_ids)
    return min(params.max_tokens, limits.max_output_tokens or room, room)


def build_sequence(
    submit: engine_pb2.Submit,
    params: SamplingParams,
    constraint: Constraint | None,
    vocabulary: Vocabulary,
    limits: RequestLimits,
    by: ComputedBy,
) -> tuple[Sequence, Ending | None]:
    """The sequence with its delivered tokens taken, and those that its grammar forces next; its ending if they
    complete it already.

    Raises InvalidRequest when a delivered token does not fit the constraint or comes after the end.
    """
    num_prompt = len(submit.token_ids)
    sequence = Sequence(
        sequence_id=submit.sequence_id,
        owner=Owner(submit.tenant_id, submit.cache_salt, by.precision, submit.kv.epoch, by.adapter_label),
        public=PublicPrefix(submit.kv.public_salt, submit.kv.public_tokens // PAGE_SIZE),
        kv=SequenceKv(submit.kv),
        mode=by.mode,
        adapter=by.adapter,
        tokens=list(submit.token_ids),
        num_prompt=num_prompt,
        num_delivered=len(submit.delivered_token_ids),
        params=params,
        max_total_tokens=num_prompt + max_output_tokens(submit, params, limits),
        deadline_s=_monotonic(submit.deadline_unix_us),
        ttft_target_s=submit.ttft_target_ms / 1000,
        constraint=constraint,
        stop=StopMatcher(params.stop),
        jumps_ahead=limits.jumps_ahead and params.logprobs is None,
        faults=_faults(submit.faults),
    )
    if sequence.owner.salt:
        sequence.table.digests(sequence.tokens, (num_prompt - 1) // PAGE_SIZE)  # here, so that no step waits for it
    ending = None
    for token in submit.delivered_token_ids:
        if ending is not None:
            raise InvalidRequest(
                "DELIVERED_PAST_END", "delivered tokens go on after the answer's end", field="delivered_token_ids"
            )
        ending = take_token(sequence, token, vocabulary)
    return sequence, jump(sequence, vocabulary) if ending is None else ending


def _faults(text: str) -> list[Fault]:
    """Those on purpose, where this process lets them happen. Raises InvalidRequest."""
    if not text or not board.is_allowed:
        return []
    return [fault for fault in parse_faults(text) if fault.stage in ENGINE_STAGES]


def _monotonic(unix_us: int) -> float:
    return time.monotonic() + unix_us / 1e6 - time.time() if unix_us else float("inf")
