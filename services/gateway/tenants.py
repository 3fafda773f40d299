"""Who calls: API key → tenant, with a short memory so that a request does not wait for Redis."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.exceptions import RedisError

from stagemesh.runtime.errors import Forbidden, Unauthenticated, Unavailable
from stagemesh.runtime.tenants import DEV_KEY, DEV_TENANT

FRESH_S = 5.0
"""How long an answer of the store is used without asking again: a revoked key works at most this much longer."""
STALE_S = 300.0
"""How long a known key is still trusted while the store is away."""
MAX_REMEMBERED = 10_000
MAX_KEY_CHARS = 256
"""Longer keys are not asked for: what is remembered of strangers stays small."""


@dataclass(frozen=True)
class Tenant:
    tenant_id: str


class Tenants:
    """Authenticates callers. `lookup(api_key)` asks the store and may raise RedisError or TimeoutError."""

    def __init__(self, lookup: Callable[[str], Awaitable[str | None]], *, allow_dev: bool) -> None:
        self._lookup = lookup
        self._allow_dev = allow_dev
        self._known: OrderedDict[str, tuple[float, str | None]] = OrderedDict()

    async def authenticate(self, api_key: str | None, tenant_header: str | None) -> Tenant:
        """Raises Unauthenticated for a missing or unknown key, Forbidden when `x-tenant-id` is not the key's tenant."""
        if not api_key:
            raise Unauthenticated(
                "API_KEY_REQUIRED", "send an API key: `authorization: Bearer KEY` or `x-api-key: KEY`"
            )
        tenant_id = await self._tenant_of(api_key) if len(api_key) <= MAX_KEY_CHARS else None
        if tenant_id is None:
            raise Unauthenticated("API_KEY_INVALID", "this API key is not known; `stagemesh tenant create` makes one")
        if tenant_header and tenant_header != tenant_id:
            raise Forbidden("TENANT_MISMATCH", "x-tenant-id is not the tenant of this API key", field="x-tenant-id")
        return Tenant(tenant_id)

    async def _tenant_of(self, api_key: str) -> str | None:
        if self._allow_dev and hmac.compare_digest(api_key.encode(), DEV_KEY.encode()):
            return DEV_TENANT
        asked_at_s, tenant_id = self._known.get(api_key, (float("-inf"), None))
        age_s = time.monotonic() - asked_at_s
        if age_s < FRESH_S:
            return tenant_id
        try:
            tenant_id = await self._lookup(api_key)
        except (RedisError, TimeoutError, OSError) as error:
            if tenant_id is not None and age_s < STALE_S:
                return tenant_id
            raise Unavailable(
                "TENANT_STORE_UNAVAILABLE", "API keys cannot be checked at the moment", retry_after_ms=1_000
            ) from error
        self._known[api_key] = (time.monotonic(), tenant_id)
        self._known.move_to_end(api_key)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return tenant_id
