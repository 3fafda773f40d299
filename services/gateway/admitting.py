"""The admit stage's own retries: nothing is accepted yet, so it begins again as often as need be."""

from __future__ import annotations

import asyncio

from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.faults import at_stage, board, request_faults
from stagemesh.runtime.telemetry import get_logger

MAX_ATTEMPTS = 3
ATTEMPT_S = 0.5

log = get_logger(__name__)


async def admit() -> None:
    """What can go wrong on purpose in admission does, and is repeated. Raises Unavailable when it goes on."""
    if not board.is_armed and request_faults.get() is None:
        return
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            async with asyncio.timeout(ATTEMPT_S):
                await at_stage("admit")
        except Exception:
            log.exception("admission failed", attempt=attempt)
        else:
            return
    raise Unavailable("ADMISSION_FAILED", "the gateway could not take the request; send it again", retry_after_ms=500)
