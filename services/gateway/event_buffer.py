"""Events on their way to a durable outbox: a bounded buffer that no caller waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from prometheus_client import Counter
from redis.exceptions import RedisError

from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger

RETRY_S = 0.5

log = get_logger(__name__)


class EventBuffer:
    """Stores one event after the other, and tries again while the ledger is away."""

    def __init__(
        self, name: str, store: Callable[[events_pb2.Envelope], Awaitable[str]], fates: Counter, *, max_buffered: int
    ) -> None:
        """`store` gives what became of an event, the label under which `fates` counts it; it may raise StagemeshError,
        RedisError or OSError."""
        self._name, self._store, self._fates = name, store, fates
        self._buffer: asyncio.Queue[events_pb2.Envelope] = asyncio.Queue(max_buffered)
        self._task = asyncio.create_task(self._keep_storing(), name=name)

    def offer(self, envelope: events_pb2.Envelope) -> None:
        """Take an event, or count it as dropped; never waits."""
        try:
            self._buffer.put_nowait(envelope)
        except asyncio.QueueFull:
            self._fates.labels("dropped").inc()

    async def stored(self) -> None:
        """Return when all that was offered has been stored."""
        await self._buffer.join()

    async def close(self, grace_s: float) -> None:
        """Store what is buffered within the grace; the rest is counted as dropped."""
        try:
            async with asyncio.timeout(grace_s):
                await self._buffer.join()
        except TimeoutError:
            self._fates.labels("dropped").inc(self._buffer.qsize())
            log.warning("events dropped", of=self._name, num_events=self._buffer.qsize())
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_storing(self) -> None:
        while True:
            envelope = await self._buffer.get()
            self._fates.labels(await self._stored(envelope)).inc()
            self._buffer.task_done()

    async def _stored(self, envelope: events_pb2.Envelope) -> str:
        while True:
            try:
                return await self._store(envelope)
            except (StagemeshError, RedisError, OSError) as error:
                log.warning("event waits", of=self._name, error=str(error))
                await asyncio.sleep(RETRY_S)
