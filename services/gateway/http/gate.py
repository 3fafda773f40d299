"""Counts the requests in progress, so that a drain can wait for them and keep new ones out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stagemesh.runtime.errors import Unavailable

RETRY_AFTER_MS = 1_000


class Gate:
    def __init__(self) -> None:
        self._num_inside = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    @property
    def num_inside(self) -> int:
        return self._num_inside

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be counted for the length of the block. Raises Unavailable while draining."""
        if self.draining:
            raise Unavailable(
                "DRAINING", "this gateway is going down; another one takes the request", retry_after_ms=RETRY_AFTER_MS
            )
        self._num_inside += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._num_inside -= 1
            if not self._num_inside:
                self._idle.set()

    async def drain(self, grace_s: float) -> int:
        """Let nobody in and wait up to `grace_s` for those inside; gives how many are left."""
        self.draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        return self._num_inside
