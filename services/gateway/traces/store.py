"""Traces of ended requests in the ledger Redis: bounded lists with a time to live, written in batches off the path.

    stagemesh:ledger:trace:<tenant>:session:<hash>           the last requests of a session
    stagemesh:ledger:trace:<tenant>:usual:<route>:<length>   the last requests of a kind, whose medians are the baseline
    stagemesh:ledger:trace:<tenant>:all                      the last requests of the tenant

A session's key is a hash of its ID and a trace names no user, so nothing here says who asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.gateway import metrics
from services.gateway.known_requests import hash_of
from services.gateway.traces.record import LENGTH_NAMES, RequestTrace, from_bytes, to_bytes
from stagemesh.runtime.telemetry import get_logger

BATCH_EVERY_S = 0.1
MAX_BUFFERED = 2_000
KEPT_OF_SESSION, KEPT_OF_KIND, KEPT_OF_TENANT = 50, 200, 200

log = get_logger(__name__)


def session_key(tenant_id: str, session_id: str) -> str:
    return _session_key(tenant_id, hash_of(session_id))


def kind_key(tenant_id: str, route: str, length_class: str) -> str:
    return f"{_base(tenant_id)}:usual:{route}:{length_class}"


def tenant_key(tenant_id: str) -> str:
    return f"{_base(tenant_id)}:all"


class TraceStore:
    def __init__(self, redis: Redis, *, ttl_s: int, routes: Iterable[str] = ()) -> None:
        """`ttl_s`: how long traces are kept; 0 keeps none. `routes`: the classes of requests that there are."""
        self._redis = redis
        self._routes = tuple(routes)
        self._ttl_s = ttl_s
        self._buffer: deque[tuple[str, str, RequestTrace]] = deque()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._keep_writing(), name="traces")

    def offer(self, tenant_id: str, session_id: str, trace: RequestTrace) -> None:
        """Keep `trace`; it is in Redis a moment later. What a full buffer drops is counted."""
        if not self._ttl_s:
            return
        if len(self._buffer) >= MAX_BUFFERED:
            metrics.TRACES_LOST.inc()
            return
        self._buffer.append((tenant_id, session_id, trace))
        self._wake.set()

    async def forget(self, tenant_id: str, request_ids: AbstractSet[str], sessions: AbstractSet[str]) -> None:
        """Keep no trace of these requests, nor of the sessions of these hashes.

        Raises RedisError, OSError or TimeoutError.
        """
        await self._write()  # what waits here must not come afterwards
        of_kinds = [kind_key(tenant_id, route, length) for route in self._routes for length in LENGTH_NAMES]
        for key in (tenant_key(tenant_id), *of_kinds):
            stored = cast("list[bytes]", await self._redis.lrange(key, 0, -1))
            traces = ((each, from_bytes(each)) for each in stored)
            gone = [each for each, trace in traces if trace is None or trace.request_id in request_ids]
            for each in gone:
                await self._redis.lrem(key, 0, each)  # type: ignore[arg-type]  # its published types know no bytes
        if sessions:
            await self._redis.delete(*(_session_key(tenant_id, session) for session in sessions))

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
        batch, self._buffer = list(self._buffer), deque()
        if not batch:
            return
        lists: dict[tuple[str, int], list[bytes]] = {}
        for tenant_id, session_id, trace in batch:
            for key, kept in _keys(tenant_id, session_id, trace):
                lists.setdefault((key, kept), []).append(to_bytes(trace))
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for (key, kept), traces in lists.items():
                    pipe.lpush(key, *traces[-kept:])
                    pipe.ltrim(key, 0, kept - 1)
                    pipe.expire(key, self._ttl_s)
                await pipe.execute()
        except (RedisError, OSError, TimeoutError) as error:
            metrics.TRACES_LOST.inc(len(batch))
            log.warning("traces not kept", num_traces=len(batch), error=str(error))


async def read_traces(redis: Redis, key: str, limit: int) -> list[RequestTrace]:
    """The newest first. Raises RedisError, OSError or TimeoutError."""
    stored = cast("list[bytes]", await redis.lrange(key, 0, limit - 1))
    return [trace for trace in map(from_bytes, stored) if trace is not None]


def _keys(tenant_id: str, session_id: str, trace: RequestTrace) -> list[tuple[str, int]]:
    of_session = [(session_key(tenant_id, session_id), KEPT_OF_SESSION)] if session_id else []
    of_kind = (kind_key(tenant_id, trace.route, trace.length_class), KEPT_OF_KIND)
    return [*of_session, of_kind, (tenant_key(tenant_id), KEPT_OF_TENANT)]


def _session_key(tenant_id: str, session_hash: str) -> str:
    return f"{_base(tenant_id)}:session:{session_hash}"


def _base(tenant_id: str) -> str:
    return f"stagemesh:ledger:trace:{tenant_id}"
