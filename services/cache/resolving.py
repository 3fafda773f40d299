"""Salts of a tenant for those who work in the background: from the ledger Redis, behind its guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from services.cache.redis_guard import RedisGuard
from services.cache.session import Opened
from services.cache.session_store import SessionStore
from stagemesh.api.common.v1.common_pb2 import ModelIdentity

Resolve = Callable[[str, ModelIdentity], Awaitable[Opened]]
"""Raises Unavailable where the ledger Redis is away."""


def guarded_resolve(store: SessionStore, guard: RedisGuard, budget_s: float) -> Resolve:
    async def resolve(tenant_id: str, model: ModelIdentity) -> Opened:
        return await guard.call(store.resolve(tenant_id, model), budget_s)

    return resolve
