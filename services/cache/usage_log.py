"""What became of requests, gathered and written down a few times a second: never on a caller's path."""

from __future__ import annotations

import asyncio
from collections import deque

from services.cache.redis_guard import RedisGuard
from services.cache.usage_store import UsageStore
from stagemesh.api.cache.v1.cache_pb2 import CacheUse
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.telemetry import get_logger

MAX_WAITING = 10_000
MAX_AT_ONCE = 200

log = get_logger(__name__)


class UsageLog:
    def __init__(self, store: UsageStore, guard: RedisGuard, *, flush_s: float, budget_s: float) -> None:
        self._store = store
        self._guard = guard
        self._flush_s = flush_s
        self._budget_s = budget_s
        self._waiting: deque[tuple[str, CacheUse]] = deque()
        self._added = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.num_dropped = 0
        """Records that were not written: too many waited, or the store was away."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="usage-log")

    def add(self, tenant_id: str, use: CacheUse) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self.num_dropped += 1
            return
        self._waiting.append((tenant_id, use))
        self._added.set()

    async def flush(self) -> None:
        """Write what waits, and wait for what is on its way; what cannot be written is dropped and counted."""
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]
            try:
                await self._guard.call(self._store.add(batch), self._budget_s)
            except Unavailable as error:
                self.num_dropped += len(batch)
                log.warning("use of the cache not written down", requests=len(batch), problem=error.message)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.flush()

    async def _run(self) -> None:
        while True:
            await self._added.wait()
            await asyncio.sleep(self._flush_s)
            self._added.clear()
            await self.flush()
