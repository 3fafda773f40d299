"""What `Explain`, `Stats` and `Top` answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from services.cache.config import CacheConfig
from services.cache.kv_lookup import PUBLIC_TENANT
from services.cache.redis_guard import RedisGuard
from services.cache.root import Root
from services.cache.usage_store import Hot, UsageStore
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.runtime.errors import NotFound, Unavailable
from stagemesh.runtime.kv_directory import KvDirectory, SpaceStats, holder_tag
from stagemesh.runtime.kv_keys import namespace

DEFAULT_LIMIT, MAX_LIMIT = 20, 1_000
MAX_SHOWN_TENANTS = 200


class Reports:
    """Raises Unavailable when the session store is away; without the KV store they lack what it holds."""

    def __init__(
        self,
        usage: UsageStore,
        guard: RedisGuard,
        directory: KvDirectory,
        kv_guard: RedisGuard,
        config: CacheConfig,
        root: Callable[[], Awaitable[Root]],
    ) -> None:
        self._usage = usage
        self._guard = guard
        self._directory = directory
        self._kv_guard = kv_guard
        self._config = config
        self._root = root
        self._budget_s = config.redis_timeout_ms / 1000

    async def explain(self, tenant_id: str, request_id: str) -> cache_pb2.ExplainResponse:
        """Raises NotFound for a request that is not remembered."""
        tenants = [tenant_id] if tenant_id else await self._guard.call(self._usage.tenants(), self._budget_s)
        found = await self._guard.call(self._usage.find(tenants, request_id), self._budget_s)
        if found is None:
            raise NotFound(
                "REQUEST_NOT_FOUND",
                "the cache remembers no such request; its record may have ended",
                field="request_id",
            )
        return cache_pb2.ExplainResponse(tenant_id=found[0], use=found[1])

    async def stats(self, tenant_id: str) -> cache_pb2.StatsResponse:
        tenants = [tenant_id] if tenant_id else await self._guard.call(self._usage.tenants(), self._budget_s)
        answer = cache_pb2.StatsResponse(kv_problem="" if self._config.kv.enabled else "KV_DISABLED")
        for name in [*tenants[:MAX_SHOWN_TENANTS], *([] if tenant_id else [PUBLIC_TENANT])]:
            counts = await self._guard.call(self._usage.counts(name), self._budget_s)
            entry = cache_pb2.TenantStats(tenant_id=name, counts=counts)
            if (stored := await self._stored(name, answer)) is not None:
                entry.stored.CopyFrom(stored)
            if name != PUBLIC_TENANT or entry.stored.pages:
                answer.tenants.append(entry)
        return answer

    async def top(self, tenant_id: str, limit: int) -> cache_pb2.TopResponse:
        limit = min(limit or DEFAULT_LIMIT, MAX_LIMIT)
        tenants = [tenant_id] if tenant_id else await self._guard.call(self._usage.tenants(), self._budget_s)
        found: list[cache_pb2.SessionHeat] = []
        for name in tenants[:MAX_SHOWN_TENANTS]:
            hottest = await self._guard.call(self._usage.hottest(name, limit), self._budget_s)
            found.extend(_heat(name, hot) for hot in hottest)
        found = sorted(found, key=lambda entry: -entry.heat)[:limit]
        for entry in found:
            entry.pages = await self._held(entry.tenant_id, entry.session_id)
        return cache_pb2.TopResponse(sessions=found)

    async def _stored(self, tenant_id: str, answer: cache_pb2.StatsResponse) -> cache_pb2.StoredKv | None:
        if answer.kv_problem:
            return None
        space = namespace(tenant_id, (await self._root()).epoch)
        try:
            stats = await self._kv_guard.call(self._directory.stats(space), self._budget_s)
        except Unavailable as error:
            answer.kv_problem = error.reason
            return None
        answer.stored_bytes, answer.budget_bytes = stats.total_bytes, stats.total_budget_bytes
        return _stored(stats)

    async def _held(self, tenant_id: str, session_id: str) -> int:
        if not self._config.kv.enabled:
            return 0
        space = namespace(tenant_id, (await self._root()).epoch)
        try:
            return await self._kv_guard.call(
                self._directory.num_held(space, holder_tag("session", session_id)), self._budget_s
            )
        except Unavailable:
            return 0  # `stats` says that the KV store is away


def _heat(tenant_id: str, hot: Hot) -> cache_pb2.SessionHeat:
    return cache_pb2.SessionHeat(tenant_id=tenant_id, session_id=hot.session_id, heat=hot.heat, counts=hot.counts)


def _stored(stats: SpaceStats) -> cache_pb2.StoredKv:
    return cache_pb2.StoredKv(
        bytes=stats.num_bytes,
        budget_bytes=stats.budget_bytes,
        pages=stats.pages,
        pinned_bytes=stats.pinned_bytes,
        published_pages=stats.published,
        evicted_pages=stats.evicted,
        expired_pages=stats.expired,
        vanished_pages=stats.vanished,
        forgotten_pages=stats.forgotten,
    )
