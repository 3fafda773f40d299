"""Whether a stage that keeps somebody waiting still does anything: a little work is asked of it, once for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import grpc

from stagemesh.runtime.retry import FAULTS

TRIES = 2
"""At once: with two replicas, of which one stands still, the next one gets the other call."""
TIMEOUT_S = 2.0

Canary = Callable[[float], Awaitable[object]]
"""Asks for a little work, within so many seconds. Raises grpc.RpcError."""


class Pulse:
    def __init__(self, canary: Canary, timeout_s: float = TIMEOUT_S) -> None:
        self._canary, self._timeout_s = canary, timeout_s
        self._heard_s = 0.0
        self._looking: asyncio.Task[bool] | None = None

    def heard(self) -> None:
        """Somebody has got an answer."""
        self._heard_s = time.monotonic()

    async def feel(self) -> bool:
        """Whether anything is answered; who comes while somebody asks waits for the same result."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="pulse")
        return await asyncio.shield(self._looking)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> bool:
        since_s = time.monotonic()
        tries = [asyncio.create_task(self._try()) for _ in range(TRIES)]
        try:
            for answer in asyncio.as_completed(tries):
                if await answer:
                    return True
            return self._heard_s > since_s  # a busy one that answers others is no silent one
        finally:
            for each in tries:
                each.cancel()
            await asyncio.gather(*tries, return_exceptions=True)

    async def _try(self) -> bool:
        try:
            await self._canary(self._timeout_s)
        except grpc.RpcError as error:
            return error.code() not in FAULTS
        return True
