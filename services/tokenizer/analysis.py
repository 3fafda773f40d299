"""The analysis of a prompt: bounded in time, and a request whose analysis fails goes on without it."""

from __future__ import annotations

import asyncio

from services.tokenizer.length_class import length_class
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.faults import HEADER, board, parse_faults, strike
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.telemetry import get_logger

STAGE = "analyze"
TIMEOUT_S = 0.25

log = get_logger(__name__)


async def analyze(num_tokens: int, context: Context) -> tuple[tokenizer_pb2.LengthClass.ValueType, str]:
    """The class of a prompt of `num_tokens`, and why there is none, as a stable reason."""
    try:
        if board.is_allowed:
            await _let_faults_happen(context)
        return length_class(num_tokens), ""
    except TimeoutError:
        return tokenizer_pb2.LENGTH_CLASS_UNSPECIFIED, "ANALYSIS_TOO_SLOW"
    except Exception:
        log.exception("analysis failed")
        return tokenizer_pb2.LENGTH_CLASS_UNSPECIFIED, "ANALYSIS_FAILED"


async def _let_faults_happen(context: Context) -> None:
    sent = dict(context.invocation_metadata() or ()).get(HEADER, "")
    if not (board.is_armed or sent):
        return
    faults = [fault for fault in parse_faults(str(sent)) if fault.stage == STAGE]
    posted = board.draw(STAGE)
    async with asyncio.timeout(TIMEOUT_S):
        for fault in (*faults, *([posted] if posted is not None else ())):
            await strike(fault)
