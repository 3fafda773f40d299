"""Erasing stored KV pages with the session or user that they belong to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from services.cache.config import CacheConfig
from services.cache.redis_guard import RedisGuard
from services.cache.root import Root
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.kv_directory import KvDirectory
from stagemesh.runtime.kv_keys import namespace
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class KvErasure:
    """Raises Unavailable where the KV store is away: who erases must know that something is left, and call again."""

    def __init__(
        self, directory: KvDirectory, guard: RedisGuard, config: CacheConfig, root: Callable[[], Awaitable[Root]]
    ) -> None:
        self._directory = directory
        self._guard = guard
        self._config = config
        self._root = root

    async def session(self, tenant_id: str, session_id: str) -> None:
        if self._config.kv.enabled:
            await self._call(self._session(tenant_id, session_id))

    async def user(self, tenant_id: str, user_id: str) -> None:
        if self._config.kv.enabled:
            await self._call(self._user(tenant_id, user_id))

    async def _session(self, tenant_id: str, session_id: str) -> int:
        space = namespace(tenant_id, (await self._root()).epoch)
        return await self._directory.forget_session(space, session_id, lease_ttl_s=self._config.lease_ttl_s)

    async def _user(self, tenant_id: str, user_id: str) -> int:
        space = namespace(tenant_id, (await self._root()).epoch)
        return await self._directory.forget_user(space, user_id, lease_ttl_s=self._config.lease_ttl_s)

    async def _call(self, erasing: Coroutine[Any, Any, int]) -> None:
        try:
            pages = await self._guard.call(erasing, self._config.redis_timeout_ms / 1000)
        except Unavailable as error:
            raise Unavailable(
                "CACHE_STORE_UNAVAILABLE",
                "the conversation is erased, but stored KV pages of it may be left: the KV store is away; call again",
                retry_after_ms=error.retry_after_ms,
            ) from error
        log.info("forgot stored pages", pages=pages)
