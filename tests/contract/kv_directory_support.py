"""A directory of KV pages on a real Valkey, with what an engine does to it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory import Holder, KvDirectory, KvLimits, Published, PublishedPage, publish
from stagemesh.runtime.kv_keys import namespace, value_name
from stagemesh.runtime.redis_client import connect

TTL_S = 1_000
ONE_PAGE = 1_280 + 512
"""What a page of 1,000 bytes counts for: the next size class, and the entries about it."""


def digest(name: object) -> bytes:
    return hashlib.sha256(str(name).encode()).digest()


def limits(**fields: Any) -> KvLimits:
    return KvLimits(
        **{"epoch": 1, "total_bytes": 10**9, "tenant_bytes": 10**9, "pinned_bytes": 10**9, "tau_s": 100.0, **fields}
    )


class Record(NamedTuple):
    """What the directory notes of a page."""

    num_bytes: float
    horizon_s: float
    cost_s: float


def records(client: redis.Redis, space: bytes) -> dict[bytes, Record]:
    pages: Any = client.hgetall(space + b"pages")
    return {name: Record(*struct.unpack_from("<3d", packed)) for name, packed in pages.items()}


@dataclass(frozen=True)
class Bench:
    """One client of each kind on the same server."""

    sync: redis.Redis
    directory: KvDirectory

    async def lease(self, tenant: str, name: str = "lease", holder: Holder | None = None, **fields: Any) -> KvLease:
        """A lease of `tenant` as the cache service gives it."""
        space = namespace(tenant, 1)
        await self.directory.lookup(space, [], ttl_s=TTL_S, lease_id=name, lease_ttl_s=TTL_S, holder=holder or Holder())
        return KvLease(**{"lease_id": name, "namespace": space, "epoch": 1, "ttl_s": TTL_S, **fields})

    def write(self, space: bytes, names: Sequence[object], num_bytes: int = 1_000) -> list[PublishedPage]:
        """Values as an engine writes them, not yet published."""
        for name in names:
            self.sync.set(value_name(space, digest(name)), b"x" * num_bytes, ex=60)
        return [PublishedPage(digest(name), num_bytes) for name in names]

    def store(self, lease: KvLease, names: Sequence[object], num_bytes: int = 1_000, **fields: Any) -> Published:
        return publish(self.sync, lease, self.write(lease.namespace, names, num_bytes), **fields)

    async def found(self, lease: KvLease, names: Sequence[object], **fields: Any) -> int:
        digests = [digest(name) for name in names]
        return (await self.directory.lookup(lease.namespace, digests, ttl_s=TTL_S, **fields)).pages

    def values(self, space: bytes) -> set[bytes]:
        """Digests whose values are there."""
        prefix = value_name(space, b"")
        keys: list[bytes] = self.sync.keys("*")  # type: ignore[assignment]  # redis-py types sync and async alike
        return {key[len(prefix) :] for key in keys if key.startswith(prefix)}

    def scores(self, space: bytes) -> dict[bytes, float]:
        order: Any = self.sync.zrange(space + b"order", 0, -1, withscores=True)
        return dict(order)

    def costs(self, space: bytes) -> dict[bytes, float]:
        """The cost terms of all pages, in seconds."""
        return {name: record.cost_s for name, record in records(self.sync, space).items()}

    def ends_s(self, key: bytes) -> int:
        """When a key's time is over, Unix seconds."""
        ends: Any = self.sync.execute_command("EXPIRETIME", key)
        return int(ends)

    def keys_without_ttl(self) -> list[bytes]:
        keys: list[bytes] = self.sync.keys("*")  # type: ignore[assignment]  # as above
        return [key for key in keys if self.sync.ttl(key) == -1]


@asynccontextmanager
async def bench(url: str, **fields: Any) -> AsyncIterator[Bench]:
    client = connect(url)
    with redis.Redis.from_url(url) as sync:
        sync.flushall()
        directory = KvDirectory(client)
        await directory.set_limits(limits(**fields))
        try:
            yield Bench(sync, directory)
        finally:
            await client.aclose()
