"""Tenants and their API keys in the ledger Redis.

A key is 256 random bits, so a fast keyed hash (HMAC-SHA-256 under a pepper that Redis keeps) is enough at rest: there
is no dictionary to try. The key itself is shown once, when it is made.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from stagemesh.runtime.errors import AlreadyExists, InvalidRequest, NotFound

DEV_TENANT = "dev"
DEV_KEY = "dev"
_TENANTS = "stagemesh:tenants"
_KEYS = "stagemesh:tenant-keys"
_PEPPER = "stagemesh:tenant-pepper"
_ADAPTERS = "stagemesh:tenant-adapters"
_CORRECTIONS = "stagemesh:tenant-corrections"
ALL_ADAPTERS = "*"
"""In the place of an adapter's name: every one."""
_TENANT_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class TenantRecord:
    tenant_id: str
    created_at_s: int


def check_tenant_id(tenant_id: str) -> None:
    """Raises InvalidRequest unless it is 1 to 63 of a-z, 0-9, `.`, `_`, `-`, a letter or digit first."""
    if not _TENANT_ID.fullmatch(tenant_id):
        raise InvalidRequest(
            "INVALID_TENANT_ID",
            f"{tenant_id[:80]!r} cannot be a tenant: use 1 to 63 of a-z, 0-9, '.', '_', '-', a letter or digit first",
            field="tenant_id",
        )


async def _digest(redis: Redis, api_key: str) -> bytes:
    await redis.set(_PEPPER, secrets.token_bytes(32), nx=True)
    pepper = cast("bytes", await redis.get(_PEPPER))
    return hmac.digest(pepper, api_key.encode(), "sha256")


async def create(redis: Redis, tenant_id: str) -> str:
    """Make a tenant and give its API key. Raises AlreadyExists."""
    check_tenant_id(tenant_id)
    if tenant_id == DEV_TENANT or not await redis.hsetnx(_TENANTS, tenant_id, str(int(time.time()))):
        raise AlreadyExists("TENANT_EXISTS", f"the tenant {tenant_id!r} exists", field="tenant_id")
    api_key = f"sk-{tenant_id}-{secrets.token_urlsafe(32)}"
    await redis.hset(_KEYS, await _digest(redis, api_key), tenant_id)
    return api_key


async def list_tenants(redis: Redis) -> list[TenantRecord]:
    """All tenants, by name."""
    records = cast("dict[bytes, bytes]", await redis.hgetall(_TENANTS))
    return sorted(
        (TenantRecord(tenant_id=name.decode(), created_at_s=int(created)) for name, created in records.items()),
        key=lambda record: record.tenant_id,
    )


async def revoke(redis: Redis, tenant_id: str) -> int:
    """Remove a tenant and all its keys; gives the number of keys. Gateways notice within seconds. Raises NotFound."""
    if not await redis.hdel(_TENANTS, tenant_id):
        raise _not_found(tenant_id)
    await redis.hdel(_ADAPTERS, tenant_id)
    await redis.hdel(_CORRECTIONS, tenant_id)
    owners = cast("dict[bytes, bytes]", await redis.hgetall(_KEYS))
    digests = [digest for digest, owner in owners.items() if owner.decode() == tenant_id]
    if digests:
        await redis.hdel(_KEYS, *digests)
    return len(digests)


async def permit_adapters(
    redis: Redis, tenant_id: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> list[str]:
    """Change which adapters a tenant may use; gives their names. Gateways notice within seconds. Raises NotFound."""
    if tenant_id != DEV_TENANT and not await redis.hexists(_TENANTS, tenant_id):
        raise _not_found(tenant_id)
    permitted = sorted((await adapters_of(redis, tenant_id) | {*allow}) - {*deny})
    if permitted:
        await redis.hset(_ADAPTERS, tenant_id, json.dumps(permitted))
    else:
        await redis.hdel(_ADAPTERS, tenant_id)
    return permitted


async def adapters_of(redis: Redis, tenant_id: str) -> frozenset[str]:
    """The adapters that a tenant may use beside those shared by all; ALL_ADAPTERS stands for every one."""
    names = cast("bytes | None", await redis.hget(_ADAPTERS, tenant_id))
    return frozenset(json.loads(names)) if names else frozenset()


async def share_corrections(redis: Redis, tenant_id: str, *, share: bool) -> None:
    """Whether corrections of a tenant's texts may train its adapter; gateways notice in seconds. Raises NotFound."""
    if tenant_id != DEV_TENANT and not await redis.hexists(_TENANTS, tenant_id):
        raise _not_found(tenant_id)
    if share:
        await redis.hset(_CORRECTIONS, tenant_id, b"shared")
    else:
        await redis.hdel(_CORRECTIONS, tenant_id)


async def sharing_corrections(redis: Redis) -> frozenset[str]:
    """The tenants whose corrections may train their adapters."""
    names = cast("list[bytes]", await redis.hkeys(_CORRECTIONS))
    return frozenset(name.decode() for name in names)


def _not_found(tenant_id: str) -> NotFound:
    return NotFound("TENANT_NOT_FOUND", f"there is no tenant {tenant_id!r}", field="tenant_id")


async def tenant_of(redis: Redis, api_key: str) -> str | None:
    """The tenant that `api_key` belongs to, or None."""
    owner = cast("bytes | None", await redis.hget(_KEYS, await _digest(redis, api_key)))
    return owner.decode() if owner else None
