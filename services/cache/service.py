"""The cache service as a process part: its store, its guard, its life."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from services.cache.config import CacheConfig
from services.cache.redis_guard import RedisGuard
from services.cache.servicer import CacheServicer
from services.cache.session_store import SessionStore
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.runtime import redis_client
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


def connect(url: str, config: CacheConfig) -> Redis:
    """A client with timeouts; one immediate retry replaces a connection that a restarted server has closed.

    Raises ConfigError for a missing or malformed URL.
    """
    timeout_s = config.redis_timeout_ms / 1000
    client = redis_client.connect(
        url, command_timeout_s=timeout_s, connect_timeout_s=timeout_s, max_connections=config.max_redis_calls
    )
    client.set_retry(Retry(NoBackoff(), 1))  # all that this service sends may run twice
    return client


class CacheService:
    service_names: Sequence[str] = (cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name,)

    def __init__(self, ledger_url: str, config: CacheConfig) -> None:
        self._config = config
        self._client = connect(ledger_url, config)
        self._store = SessionStore(self._client, config)
        breaker = BreakerConfig(failure_threshold=config.breaker_failures, open_s=config.breaker_open_ms / 1000)
        self._guard = RedisGuard(breaker, timeout_s=config.redis_timeout_ms / 1000, max_calls=config.max_redis_calls)

    def register(self, server: grpc.aio.Server) -> None:
        cache_pb2_grpc.add_CacheServiceServicer_to_server(CacheServicer(self._store, self._guard, self._config), server)

    async def start(self) -> None:
        """Ready at once, with or without Redis: each call says by itself whether the store is there."""
        try:
            await self._guard.call(self._store.ping(), self._config.redis_timeout_ms / 1000)
        except Unavailable as error:
            log.warning("started without the session store", problem=error.message)

    async def drain(self, grace_s: float) -> None:
        """Nothing to hand over: calls end within their budgets."""

    async def close(self) -> None:
        await self._guard.close()
        await self._client.aclose()
