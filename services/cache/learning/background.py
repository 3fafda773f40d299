"""Work that goes on for as long as the process does, whatever one round of it runs into."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from stagemesh.runtime.telemetry import get_logger

PAUSE_S = 1.0

log = get_logger(__name__)


async def again_and_again(what: str, once: Callable[[], Awaitable[None]], *, pause_s: float = PAUSE_S) -> NoReturn:
    """`once` without end. What it raises is logged, and the next round begins after `pause_s`."""
    while True:
        try:
            await once()
        except Exception:
            log.exception(f"{what} failed, and goes on")
            await asyncio.sleep(pause_s)
