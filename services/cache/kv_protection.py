"""Protecting the stored pages of a prompt from eviction, for a time."""

from __future__ import annotations

from collections.abc import Sequence

from services.cache.config import CacheConfig
from services.cache.kv_lookup import chain
from services.cache.public_prefixes import PublicPrefixes
from services.cache.redis_guard import RedisGuard
from services.cache.resolving import Resolve
from stagemesh.api.common.v1.common_pb2 import KvLease, ModelIdentity
from stagemesh.runtime.kv_directory import KvDirectory
from stagemesh.runtime.kv_keys import PAGE_TOKENS, namespace


class KvProtection:
    """Raises Unavailable where a store is away."""

    def __init__(
        self,
        directory: KvDirectory,
        guard: RedisGuard,
        config: CacheConfig,
        prefixes: PublicPrefixes,
        resolve: Resolve,
    ) -> None:
        self._directory = directory
        self._guard = guard
        self._config = config
        self._prefixes = prefixes
        self._resolve = resolve

    async def protect(self, tenant_id: str, model: ModelIdentity, tokens: Sequence[int], ttl_s: int) -> int:
        """How many of the tenant's own pages of `tokens` are protected now for `ttl_s`; 0 ends it.

        Pages of public prefixes are protected as long as they are declared, and not counted.
        """
        opened = await self._resolve(tenant_id, model)
        tokens = tokens[: self._config.kv.max_lookup_tokens]
        num_public = self._prefixes.num_public_pages(model, tokens)
        lease = KvLease(public_tokens=num_public * PAGE_TOKENS, public_salt=opened.public_salt)
        own = chain(tenant_id, model, lease, opened.salt, tokens)[num_public:]
        if not own:
            return 0
        space = namespace(tenant_id, opened.stamp.epoch)
        change = self._directory.pin(space, own, ttl_s=ttl_s) if ttl_s else self._directory.unpin(space, own)
        return await self._guard.call(change, self._config.redis_timeout_ms / 1000)
