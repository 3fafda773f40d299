"""Stored rules in the ledger Redis: `stagemesh:anchors:rules:TENANT` is a hash of messages by name."""

from __future__ import annotations

import time
from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from stagemesh.api.validator.v1 import rule_sets_pb2, validator_pb2
from stagemesh.runtime.errors import Exhausted, InvalidRequest
from stagemesh.runtime.redis_client import Redis
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.messages import demands_of
from stagemesh.validation.rule import STORED, Rule
from stagemesh.validation.sets.store import PREFIX, tried

MAX_BYTES = 262_144
"""Of one set."""


class RuleStore:
    """Every method raises Unavailable when Redis is away or slow."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def get(self, tenant_id: str, name: str) -> rule_sets_pb2.RuleSet | None:
        data = await tried(self._client.hget(_key(tenant_id), name))
        return rule_sets_pb2.RuleSet.FromString(data) if data is not None else None

    async def all(self, tenant_id: str) -> list[rule_sets_pb2.RuleSet]:
        """Of a tenant, by name."""
        found = await tried(self._client.hgetall(_key(tenant_id)))
        return sorted((rule_sets_pb2.RuleSet.FromString(data) for data in found.values()), key=lambda each: each.name)

    async def put(self, tenant_id: str, given: rule_sets_pb2.RuleSet, max_sets: int) -> rule_sets_pb2.RuleSet:
        """Store a set in place of the one before. Raises Exhausted for one that is too large, or one too many."""
        stored = rule_sets_pb2.RuleSet()
        stored.CopyFrom(given)
        seconds, nanos = divmod(time.time_ns(), 10**9)
        stored.updated_at.CopyFrom(Timestamp(seconds=seconds, nanos=nanos))
        if stored.ByteSize() > MAX_BYTES:
            raise Exhausted("RULES_TOO_LARGE", f"the rules have {stored.ByteSize():,} bytes; {MAX_BYTES:,} are allowed")
        known = await tried(self._client.hkeys(_key(tenant_id)))
        if stored.name.encode() not in known and len(known) >= max_sets:
            raise Exhausted("TOO_MANY_RULE_SETS", f"a tenant may have {max_sets} sets of rules; drop one")
        await tried(self._client.hset(_key(tenant_id), stored.name, stored.SerializeToString()))
        return stored

    async def drop(self, tenant_id: str, name: str) -> bool:
        return bool(await tried(self._client.hdel(_key(tenant_id), name)))

    async def drop_all(self, tenant_id: str) -> int:
        """Of a tenant; gives how many."""
        count = int(await tried(self._client.hlen(_key(tenant_id))))
        await tried(self._client.delete(_key(tenant_id)))
        return count

    async def with_stored(self, tenant_id: str, demands: Sequence[Anchor | Rule]) -> list[Anchor | Rule]:
        """`demands` with the rules of the sets that they name. Raises InvalidRequest for an unknown one."""
        found: list[Anchor | Rule] = []
        for demand in demands:
            if isinstance(demand, Rule) and demand.kind == STORED:
                found += await self._rules(tenant_id, demand.fields["name"])
            else:
                found.append(demand)
        return found

    async def _rules(self, tenant_id: str, name: str) -> list[Anchor | Rule]:
        stored = await self.get(tenant_id, name)
        if stored is None:
            raise InvalidRequest("UNKNOWN_RULE_SET", f"there are no stored rules {name[:80]!r} here", field="rules")
        return demands_in(stored)


def demands_in(given: rule_sets_pb2.RuleSet) -> list[Anchor | Rule]:
    return demands_of(validator_pb2.CheckRequest(rules=given.rules, text_rules=given.text_rules))


def names_stored(demands: Sequence[Anchor | Rule]) -> bool:
    return any(isinstance(demand, Rule) and demand.kind == STORED for demand in demands)


def _key(tenant_id: str) -> str:
    return f"{PREFIX}:rules:{tenant_id}"
