"""Events of requests whose caller may come back, in one bounded Redis stream per request.

Ordinary requests do not pay for it. Writes are collected and sent in batches, off the caller's path.
"""

from __future__ import annotations

import asyncio
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from services.gateway import metrics
from services.gateway.work import Delivered
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.telemetry import get_logger

BATCH_EVERY_S = 0.02
MAX_BUFFERED = 20_000
MAX_EVENTS = 20_000

log = get_logger(__name__)


def stream_key(tenant_id: str, request_id: str) -> str:
    return f"stagemesh:ledger:events:{tenant_id}:{request_id}"


class EventStore:
    def __init__(self, redis: Redis, *, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s
        self._buffer: list[tuple[str, gateway_pb2.Event]] = []
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._keep_writing(), name="event-store")

    def append(self, tenant_id: str, request_id: str, event: gateway_pb2.Event) -> None:
        """Keep `event`; it is in Redis a few milliseconds later. What a full buffer drops is counted."""
        if len(self._buffer) >= MAX_BUFFERED:
            metrics.EVENTS_LOST.inc()
            return
        self._buffer.append((stream_key(tenant_id, request_id), event))
        self._wake.set()

    async def read(self, tenant_id: str, request_id: str, after_seq: int) -> list[gateway_pb2.Event]:
        """Stored events with a greater seq, at most 500."""
        key, last_id = stream_key(tenant_id, request_id), f"{after_seq}-0"
        found = cast(
            "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
            await self._redis.xread({key: last_id}, count=500),
        )
        entries = found[0][1] if found else []
        return [gateway_pb2.Event.FromString(fields[b"event"]) for _, fields in entries]

    async def delivered(self, tenant_id: str, request_id: str) -> Delivered:
        """What a caller may have seen so far: where another gateway goes on."""
        delivered, after_seq = Delivered(), 0
        while events := await self.read(tenant_id, request_id, after_seq):
            after_seq = events[-1].seq
            for delta in (event.delta for event in events if event.HasField("delta")):
                delivered.token_ids.setdefault(delta.index, []).extend(delta.token_ids)
                delivered.num_chars[delta.index] = delivered.num_chars.get(delta.index, 0) + len(delta.text)
        return Delivered(delivered.token_ids, delivered.num_chars, after_seq + 1)

    async def close(self) -> None:
        """Write what is buffered, then stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._write()

    async def _keep_writing(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_EVERY_S)
            self._wake.clear()
            await self._write()

    async def _write(self) -> None:
        batch, self._buffer = self._buffer, []
        if not batch:
            return
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key, event in batch:
                    pipe.xadd(
                        key,
                        {"event": event.SerializeToString()},
                        id=f"{event.seq}-0",
                        maxlen=MAX_EVENTS,
                        approximate=True,
                    )
                for key in {key for key, _ in batch}:
                    pipe.expire(key, self._ttl_s)
                results = await pipe.execute(raise_on_error=False)
        except (RedisError, OSError, TimeoutError) as error:
            metrics.EVENTS_LOST.inc(len(batch))
            log.warning("events not kept", num_events=len(batch), error=str(error))
            return
        # A response error is an event that is there already, from the gateway that had the request before.
        unexpected = [r for r in results if isinstance(r, Exception) and not isinstance(r, ResponseError)]
        if unexpected:
            log.warning("events not kept", num_events=len(unexpected), error=str(unexpected[0]))
