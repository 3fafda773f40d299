"""What goes with a revoked tenant beside its keys."""

from __future__ import annotations

from dataclasses import dataclass

from services.corrector.adapters.store import AdapterStore
from stagemesh.runtime import tenants
from stagemesh.runtime.redis_client import Redis
from stagemesh.validation.sets.rule_store import RuleStore
from stagemesh.validation.sets.store import SetStore


@dataclass(frozen=True)
class Revoked:
    keys: int
    anchor_sets: int
    rule_sets: int


async def revoke(redis: Redis, tenant_id: str) -> Revoked:
    """Remove a tenant, first its keys. Raises NotFound, and Unavailable where Redis goes away meanwhile: again then."""
    num_keys = await tenants.revoke(redis, tenant_id)
    num_anchors = await SetStore(redis).drop_all(tenant_id)
    num_rules = await RuleStore(redis).drop_all(tenant_id)
    await AdapterStore(redis).forget(tenant_id)
    return Revoked(num_keys, num_anchors, num_rules)
