"""Faults on purpose with single chunks: the other streams of the call go on."""

from __future__ import annotations

from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.faults import Fault, board, parse_faults

STAGE = "detokenize"


def fault_of(chunk: tokenizer_pb2.DetokenizeChunk) -> Fault | None:
    """What is to go wrong with `chunk`. Raises InvalidRequest for text that says nothing."""
    if not (board.is_armed or chunk.faults) or not board.is_allowed:
        return None
    sent = parse_faults(chunk.faults)
    return board.draw(STAGE) or next((fault for fault in sent if fault.stage == STAGE), None)
