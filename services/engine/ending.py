"""When a sequence ends."""

from __future__ import annotations

from dataclasses import dataclass

from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import StagemeshError


@dataclass(frozen=True)
class Ending:
    """Why and on what a sequence ended."""

    reason: common_pb2.FinishReason.ValueType
    stop: str = ""
    """The stop string that became complete."""
    stop_token: int | None = None
    """The end-of-sequence or stop token, which is the last output token."""
    error: StagemeshError | None = None


def end_tokens(sequence: Sequence, vocabulary: Vocabulary) -> frozenset[int]:
    """Tokens that end the sequence when drawn. A grammar ends with the end token whatever `ignore_eos` says."""
    ignores_eos = sequence.params.ignore_eos and sequence.constraint is None
    return sequence.params.stop_token_ids | (frozenset() if ignores_eos else vocabulary.eos)


def take_token(sequence: Sequence, token: int, vocabulary: Vocabulary) -> Ending | None:
    """Append an output token, whether drawn or brought by the caller; gives the ending that it causes.

    Raises InvalidRequest when the token does not fit the constraint.
    """
    ends = token in end_tokens(sequence, vocabulary)
    if sequence.constraint is not None and not ends:
        sequence.constraint.accept(token)
    sequence.tokens.append(token)
    if ends:
        return Ending(_reason(sequence), stop_token=token)
    stop = sequence.stop.push(vocabulary.text(token))
    if stop is not None and sequence.num_output >= sequence.params.min_tokens:
        return Ending(common_pb2.FINISH_REASON_STOP, stop=stop)
    if sequence.constraint is not None and sequence.constraint.is_complete():
        return Ending(_reason(sequence))
    if len(sequence.tokens) >= sequence.max_total_tokens:
        return Ending(common_pb2.FINISH_REASON_LENGTH)
    return None


def _reason(sequence: Sequence) -> common_pb2.FinishReason.ValueType:
    """LENGTH where the end is not the model's own, but was chosen since its tokens ran out."""
    was_cut = sequence.constraint is not None and sequence.constraint.was_cut()
    return common_pb2.FINISH_REASON_LENGTH if was_cut else common_pb2.FINISH_REASON_STOP
