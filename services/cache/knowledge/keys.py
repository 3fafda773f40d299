"""Names of what Redis holds of knowledge bases, made as `services/cache/keys.py` makes those of sessions.

Without an epoch: what invalidates sessions leaves an operator's documents alone. Nothing here has a TTL but what is
being stored and what has been replaced; a base stays until it is dropped.

| kind | type | what |
|---|---|---|
| `kb-bases` | set | names of a tenant's bases |
| `kb` | hash | one base: version, counts, and its files with their digests |
| `kb-file` | string | a part of a file, named by the digest of the whole file |
| `kb-lock` | string | who syncs the base now |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from services.cache.keys import PREFIX
from stagemesh.runtime.kv_keys import netstrings

ALL_BASES = PREFIX + b"{root}:kb-bases"
"""`[tenant, name]` of all bases, which a starting process makes ready."""


def tenant_key(kind: bytes, tenant_id: str, *parts: str) -> bytes:
    """A key of one tenant, in the tenant's slot, that no other tenant, kind or part can meet."""
    tenant = tenant_id.encode()
    digest = hashlib.blake2b(tenant, digest_size=8).hexdigest().encode()
    return PREFIX + b"{" + digest + b"}:" + kind + b":" + netstrings(tenant, *(part.encode() for part in parts))


@dataclass(frozen=True)
class BaseKeys:
    """Keys of one base of one tenant."""

    tenant_id: str
    name: str

    def bases(self) -> bytes:
        return tenant_key(b"kb-bases", self.tenant_id)

    def base(self) -> bytes:
        return tenant_key(b"kb", self.tenant_id, self.name)

    def lock(self) -> bytes:
        return tenant_key(b"kb-lock", self.tenant_id, self.name)

    def part(self, sha256: str, number: int) -> bytes:
        return tenant_key(b"kb-file", self.tenant_id, self.name, sha256, str(number))

    def folder(self) -> str:
        """A file name that no other base has."""
        return hashlib.sha256(netstrings(self.tenant_id.encode(), self.name.encode())).hexdigest()
