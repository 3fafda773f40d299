"""Anchor sets in the ledger Redis: a manifest for each, and its keys in compressed chunks.

`stagemesh:anchors:sets:TENANT` is a hash of manifests by name; `…:TOKEN:NUMBER` are the chunks of one load, which are
never written again. `stagemesh:anchors:generation` grows with every change of any set.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, cast

from redis.exceptions import RedisError

from stagemesh.runtime.errors import Exhausted, Unavailable
from stagemesh.runtime.redis_client import Redis
from stagemesh.validation.sets.manifest import Manifest, unpack

PREFIX = "stagemesh:anchors"
GENERATION = f"{PREFIX}:generation"
TENANTS = f"{PREFIX}:tenants"
UNPUBLISHED_TTL_S = 3_600
"""Chunks of a load that broke off are gone after this time."""
REPLACED_TTL_S = 300
"""Chunks of the keys before stay so long, for processes that are reading them."""
FAILURES = (RedisError, OSError, TimeoutError)


class SetStore:
    """Every method raises Unavailable when Redis is away or slow."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        source = files("stagemesh.validation.sets").joinpath("publish.lua").read_text("utf-8")
        self._publish: Any = client.register_script(source)

    async def manifest(self, tenant_id: str, name: str) -> Manifest | None:
        data = await tried(self._client.hget(_sets(tenant_id), name))
        return unpack(data) if data is not None else None

    async def manifests(self, tenant_id: str) -> list[Manifest]:
        """All of a tenant, by name."""
        found = await tried(self._client.hgetall(_sets(tenant_id)))
        return sorted((unpack(data) for data in found.values()), key=lambda manifest: manifest.name)

    async def all_manifests(self) -> list[tuple[str, Manifest]]:
        """Of all tenants, the latest first."""
        tenants = sorted(tenant.decode() for tenant in await tried(self._client.smembers(TENANTS)))
        found = [(tenant, manifest) for tenant in tenants for manifest in await self.manifests(tenant)]
        return sorted(found, key=lambda pair: -pair[1].generation)

    async def generation(self) -> int:
        """Another number than before: some set has changed."""
        return int(await tried(self._client.get(GENERATION)) or 0)

    async def put(self, tenant_id: str, token: str, number: int, data: bytes) -> int:
        """Store a chunk of a load; gives the bytes that it takes."""
        packed = zlib.compress(data, 6)
        await tried(self._client.set(_chunk(tenant_id, token, number), packed, ex=UNPUBLISHED_TTL_S))
        return len(packed)

    async def publish(self, tenant_id: str, manifest: Manifest, max_sets: int) -> Manifest:
        """Make a load the set that is used; gives it with its generation. Raises Exhausted with too many sets."""
        chunks = [_chunk(tenant_id, manifest.token, number) for number in range(manifest.chunks)]
        call = self._publish(
            keys=[_sets(tenant_id), TENANTS, GENERATION, *chunks],
            args=[manifest.name, tenant_id, max_sets, manifest.pack(), REPLACED_TTL_S],
        )
        match (await tried(call)).decode():
            case "full":
                message = f"a tenant may have {max_sets} anchor sets; drop one"
                raise Exhausted("TOO_MANY_ANCHOR_SETS", message)
            case "gone":
                raise Unavailable("ANCHORS_UNAVAILABLE", "the load took too long and is lost; load the set again")
        stored = await self.manifest(tenant_id, manifest.name)
        if stored is None:
            raise Unavailable("ANCHORS_UNAVAILABLE", "the set was dropped while it was loaded")
        return stored

    async def chunk(self, tenant_id: str, manifest: Manifest, number: int) -> bytes | None:
        """None where it is gone: the set was replaced or dropped."""
        data = await tried(self._client.get(_chunk(tenant_id, manifest.token, number)))
        return zlib.decompress(data) if data is not None else None

    async def drop(self, tenant_id: str, name: str) -> Manifest | None:
        """What was dropped; None where there is no such set."""
        manifest = await self.manifest(tenant_id, name)
        if manifest is None:
            return None
        await tried(self._client.hdel(_sets(tenant_id), name))
        await tried(self._client.incr(GENERATION))
        await tried(self._client.delete(*self._chunks(tenant_id, manifest)))
        return manifest

    async def drop_all(self, tenant_id: str) -> int:
        """All sets of a tenant; gives how many."""
        manifests = await self.manifests(tenant_id)
        for manifest in manifests:
            await self.drop(tenant_id, manifest.name)
        await tried(self._client.srem(TENANTS, tenant_id))
        return len(manifests)

    def _chunks(self, tenant_id: str, manifest: Manifest) -> Sequence[str]:
        return [_chunk(tenant_id, manifest.token, number) for number in range(manifest.chunks)]


async def tried(call: Any) -> Any:
    """Raises Unavailable where Redis does not answer."""
    try:
        return cast("Any", await call)
    except FAILURES as error:
        raise Unavailable(
            "ANCHORS_UNAVAILABLE",
            f"the store of anchor sets cannot be used now ({type(error).__name__})",
            retry_after_ms=1_000,
        ) from error


def _sets(tenant_id: str) -> str:
    return f"{PREFIX}:sets:{tenant_id}"


def _chunk(tenant_id: str, token: str, number: int) -> str:
    return f"{_sets(tenant_id)}:{token}:{number}"
