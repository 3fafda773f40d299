"""What requests reused and missed, in the ledger Redis: counts by tenant and session, heat, the last requests.

Every method is one Redis operation in the sense of `RedisGuard`: it raises redis-py's errors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

from google.protobuf.message import DecodeError

from services.cache.config import CacheConfig
from services.cache.keys import TENANTS, TenantKeys
from services.cache.root import Root
from stagemesh.api.cache.v1.cache_pb2 import CacheCounts, CacheUse
from stagemesh.runtime.redis_client import Redis

MAX_TENANTS = 10_000
MAX_HOT_SESSIONS = 10_000
MISS = "miss:"


@dataclass(frozen=True)
class Hot:
    session_id: str
    heat: float
    counts: CacheCounts


class UsageStore:
    def __init__(self, client: Redis, config: CacheConfig, root: Callable[[], Awaitable[Root]]) -> None:
        source = files("services.cache").joinpath("scripts", "use.lua").read_text(encoding="utf-8")
        self._use = client.register_script(source)
        self._client = client
        self._config = config
        self._root = root

    async def add(self, uses: Sequence[tuple[str, CacheUse]]) -> None:
        """Write down what became of these requests, each with its tenant; those known already change nothing."""
        epoch, now_s, ttl_s = (await self._root()).epoch, time.time(), self._config.explain_ttl_s
        pipeline = self._client.pipeline(transaction=False)
        for tenant_id, use in uses:
            keys = TenantKeys(tenant_id, epoch)
            session = keys.session_usage(use.session_id)  # not touched without a session, but a key that we may name
            await self._use(
                keys=[keys.usage(), session, keys.heat(), keys.requests(), keys.ring()],
                args=[
                    *(use.request_id, use.SerializeToString(), use.session_id, ttl_s, self._config.explain_requests),
                    *(self._config.kv.heat_tau_s, MAX_HOT_SESSIONS),
                    *(part for name, amount in amounts(use).items() for part in (name, amount)),
                ],
                client=pipeline,
            )
        pipeline.zadd(TENANTS, {tenant_id: now_s for tenant_id, _ in uses})
        pipeline.zremrangebyscore(TENANTS, "-inf", now_s - ttl_s)
        pipeline.zremrangebyrank(TENANTS, 0, -MAX_TENANTS - 1)
        pipeline.expire(TENANTS, ttl_s)
        await pipeline.execute()

    async def tenants(self) -> list[str]:
        """Tenants with counts, the last active first."""
        found = cast("list[bytes]", await self._client.zrange(TENANTS, 0, -1, desc=True))
        return [tenant.decode() for tenant in found]

    async def find(self, tenant_ids: Sequence[str], request_id: str) -> tuple[str, CacheUse] | None:
        """The first tenant that has this request, and what became of it."""
        epoch = (await self._root()).epoch
        pipeline = self._client.pipeline(transaction=False)
        for tenant_id in tenant_ids:
            pipeline.hget(TenantKeys(tenant_id, epoch).requests(), request_id)
        for tenant_id, record in zip(tenant_ids, await pipeline.execute(), strict=True):
            if record is not None:
                return tenant_id, CacheUse.FromString(record)
        return None

    async def counts(self, tenant_id: str) -> CacheCounts:
        keys = TenantKeys(tenant_id, (await self._root()).epoch)
        return _counts(cast("dict[bytes, bytes]", await self._client.hgetall(keys.usage())))

    async def hottest(self, tenant_id: str, limit: int) -> list[Hot]:
        """Sessions by heat."""
        keys = TenantKeys(tenant_id, (await self._root()).epoch)
        found: Any = await self._client.zrange(keys.heat(), 0, limit - 1, desc=True, withscores=True)
        pipeline = self._client.pipeline(transaction=False)
        for session_id, _ in found:
            pipeline.hgetall(keys.session_usage(session_id.decode()))
        now_s, tau_s = time.time(), self._config.kv.heat_tau_s
        return [
            Hot(session_id.decode(), math.exp((score - now_s) / tau_s), _counts(counts))
            for (session_id, score), counts in zip(found, await pipeline.execute(), strict=True)
        ]

    async def forget_sessions(self, tenant_id: str, session_ids: Collection[str]) -> None:
        """Erase what is remembered of sessions; the tenant's sums stay."""
        if not session_ids:
            return
        keys = TenantKeys(tenant_id, (await self._root()).epoch)
        await self._client.delete(*(keys.session_usage(session_id) for session_id in session_ids))
        await self._client.zrem(keys.heat(), *session_ids)
        records = cast("dict[bytes, bytes]", await self._client.hgetall(keys.requests()))
        if mine := [name for name, record in records.items() if _session_of(record) in session_ids]:
            await self._client.hdel(keys.requests(), *mine)


def amounts(use: CacheUse) -> dict[str, int]:
    """What a request adds to the sums."""
    kv = use.kv
    hit = kv.pool_tokens + kv.host_tokens + kv.store_tokens > 0
    continues = use.session_tokens > 0
    found = {
        "requests": 1,
        "hits": int(hit),
        "session_requests": int(continues),
        "session_hits": int(continues and hit),
        "prompt_tokens": use.prompt_tokens,
        "pool_tokens": kv.pool_tokens,
        "host_tokens": kv.host_tokens,
        "store_tokens": kv.store_tokens,
    }
    if cause := miss_cause(use):
        found[MISS + cause] = 1
    return found


def miss_cause(use: CacheUse) -> str:
    """Why pages were computed that could have been there; empty where there was nothing to miss."""
    return str(use.kv.miss_cause or use.lookup_miss)


def _counts(found: dict[bytes, bytes]) -> CacheCounts:
    counts = CacheCounts()
    for name, value in ((name.decode(), int(value)) for name, value in found.items()):
        if name.startswith(MISS):
            counts.misses[name.removeprefix(MISS)] = value
        else:
            setattr(counts, name, value)
    return counts


def _session_of(record: bytes) -> str:
    try:
        return str(CacheUse.FromString(record).session_id)
    except DecodeError:
        return ""
