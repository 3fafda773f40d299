"""The cache service as a process part: its store, its guard, its life."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import grpc
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from services.cache.config import CacheConfig
from services.cache.knowledge.part import Knowledge
from services.cache.kv_erasure import KvErasure
from services.cache.kv_lookup import KV_WORDS, KvLookup
from services.cache.kv_protection import KvProtection
from services.cache.kv_upkeep import KvUpkeep
from services.cache.learning.expectation import Expectation
from services.cache.learning.part import SERVICE_NAME as LEARNING_SERVICE
from services.cache.learning.part import Learning
from services.cache.preferences.servicer import PreferenceServicer
from services.cache.preferences.store import PreferenceStore
from services.cache.public_prefixes import PublicPrefixes
from services.cache.redis_guard import SESSION_STORE, RedisGuard, Words
from services.cache.reports import Reports
from services.cache.resolving import guarded_resolve
from services.cache.servicer import CacheServicer
from services.cache.session_store import SessionStore
from services.cache.usage_log import UsageLog
from services.cache.usage_store import UsageStore
from stagemesh.api.cache.v1 import (
    cache_pb2,
    cache_pb2_grpc,
    knowledge_pb2,
    knowledge_pb2_grpc,
    preferences_pb2,
    preferences_pb2_grpc,
)
from stagemesh.api.tokenizer.v1.tokenizer_pb2_grpc import TokenizerServiceStub
from stagemesh.runtime import redis_client
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.channel import dial
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.kv_directory import KvDirectory
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
    service_names: Sequence[str] = (
        cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name,
        knowledge_pb2.DESCRIPTOR.services_by_name["KnowledgeService"].full_name,
        preferences_pb2.DESCRIPTOR.services_by_name["PreferenceService"].full_name,
        LEARNING_SERVICE,
    )

    def __init__(
        self,
        ledger_url: str,
        config: CacheConfig,
        *,
        kv_url: str = "",
        tokenizer: Sequence[str] = (),
        engines: Sequence[str] = (),
        state_dir: Path | None = None,
    ) -> None:
        """Must be made inside the running event loop. Without `kv_url` no pages are stored beyond the engines."""
        if not kv_url and config.kv.enabled:
            config = config.model_copy(update={"kv": config.kv.model_copy(update={"enabled": False})})
        self._config = config
        self._client = connect(ledger_url, config)
        self._kv_client = connect(kv_url or ledger_url, config)
        self._guard, self._kv_guard = new_guard(config), new_guard(config, KV_WORDS)
        store = SessionStore(self._client, config)
        directory = KvDirectory(self._kv_client)
        usage = UsageStore(self._client, config, store.root)
        self._store = store
        self._tokenizer = dial(tokenizer) if tokenizer and config.public_prefixes else None
        self._prefixes = PublicPrefixes(
            config.public_prefixes, TokenizerServiceStub(self._tokenizer) if self._tokenizer is not None else None
        )
        self._upkeep = KvUpkeep(directory, config, store.root)
        self._log = UsageLog(
            usage, self._guard, flush_s=config.explain_flush_ms / 1000, budget_s=config.redis_timeout_ms / 1000
        )
        lookup = KvLookup(directory, self._kv_guard, config, self._prefixes, self._upkeep.ask)
        reports = Reports(usage, self._guard, directory, self._kv_guard, config, store.root)
        erasure = KvErasure(directory, self._kv_guard, config, store.root)
        preferences = PreferenceStore(self._client, config.preferences)
        self._preferences = PreferenceServicer(preferences, self._guard, config)
        resolve = guarded_resolve(store, self._guard, config.redis_timeout_ms / 1000)
        protection = KvProtection(directory, self._kv_guard, config, self._prefixes, resolve)
        expectation = Expectation(config.kv.heat_tau_s)
        self._learning = Learning(
            self._client,
            self._guard,
            config,
            store.root,
            resolve,
            lookup,
            protection,
            erasure,
            expectation,
            tokenizer=tokenizer,
            engines=engines,
        )
        self._servicer = CacheServicer(
            store,
            self._guard,
            config,
            lookup,
            erasure,
            self._log,
            reports,
            usage,
            preferences,
            expectation,
            self._learning,
        )
        self._knowledge = Knowledge(connect(ledger_url, config), new_guard(config), config, state_dir)

    def register(self, server: grpc.aio.Server) -> None:
        cache_pb2_grpc.add_CacheServiceServicer_to_server(self._servicer, server)
        preferences_pb2_grpc.add_PreferenceServiceServicer_to_server(self._preferences, server)
        self._learning.register(server)
        knowledge_pb2_grpc.add_KnowledgeServiceServicer_to_server(self._knowledge.servicer(), server)

    async def start(self) -> None:
        """Ready with or without Redis: each call says by itself whether the store is there.

        What is kept ready is waited for, within a bound.
        """
        try:
            await self._guard.call(self._store.root(), self._config.redis_timeout_ms / 1000)
        except Unavailable as error:
            log.warning("started without the session store", problem=error.message)
        self._upkeep.start()
        self._log.start()
        self._knowledge.start()
        await self._learning.start()

    async def drain(self, grace_s: float) -> None:
        """Nothing to hand over: calls end within their budgets."""

    async def close(self) -> None:
        await self._learning.close()
        await self._knowledge.close()
        await self._log.close()
        await self._upkeep.close()
        await self._prefixes.close()
        for guard in (self._guard, self._kv_guard):
            await guard.close()
        for client in (self._client, self._kv_client):
            await client.aclose()
        if self._tokenizer is not None:
            await self._tokenizer.close()


def new_guard(config: CacheConfig, words: Words = SESSION_STORE) -> RedisGuard:
    breaker = BreakerConfig(failure_threshold=config.breaker_failures, open_s=config.breaker_open_ms / 1000)
    return RedisGuard(breaker, timeout_s=config.redis_timeout_ms / 1000, max_calls=config.max_redis_calls, words=words)
