"""Names of everything that the cache service stores.

A key is `stagemesh:cache:{TENANT DIGEST}:KIND:` and then netstrings (`LENGTH:BYTES,`), so no ID, whatever bytes it
holds, can end early or run into its neighbour. The digest in braces puts all keys of a tenant into one slot of a
Redis cluster; the tenant itself stands in the key as well, so a collision of digests mixes nothing.

| kind | type | what |
|---|---|---|
| `session` | hash | user, version, times, sizes, the leading system messages, which tokens belong to it |
| `turns` | list | one entry per turn: u32 little endian number of messages, then `ChatMessages` |
| `seen` | sorted set | the last commits by request ID; score = 2 × version + conflict |
| `tokens` | string | u32 little endian token IDs; its key names tokenizer and revision |
| `sessions` | sorted set | session IDs of a tenant by last activity (ms) |
| `user` | sorted set | session IDs of a user by last activity (ms) |
| `usage`, `session-usage` | hash | what requests of the tenant, or of a session, reused and missed |
| `heat` | sorted set | session IDs by a decaying count of requests, as a time (`scripts/use.lua`) |
| `requests`, `ring` | hash, list | the last requests: `CacheUse` by ID, and the IDs in order |
| `question-heat`, `question-texts`, `question-askers` | sorted set, hashes | what users ask, how often, and who |
| `gone`, `gone-user` | counter | erasures of a session or user, so that a turn under way cannot bring it back |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stagemesh.runtime.kv_keys import netstrings

PREFIX = b"stagemesh:cache:"
EPOCH = PREFIX + b"{root}:epoch"
SECRET = PREFIX + b"{root}:secret"
TENANTS = PREFIX + b"{root}:tenants"
"""Sorted set of the tenants with counts, by last request (s)."""
LEARNED_TENANTS = PREFIX + b"{root}:learned"
"""Likewise of those from whose conversations something was learned."""
RETURNS = PREFIX + b"{root}:returns"
"""Weights by which it is told who comes back (`Belief.encode`); nothing of a tenant, session or text is in them."""


@dataclass(frozen=True)
class TenantKeys:
    """Keys of one tenant in one epoch."""

    tenant_id: str
    epoch: int

    def _key(self, kind: bytes, *parts: str) -> bytes:
        tenant = self.tenant_id.encode()
        digest = hashlib.blake2b(tenant, digest_size=8).hexdigest().encode()
        names = netstrings(b"%d" % self.epoch, tenant, *(part.encode() for part in parts))
        return PREFIX + b"{" + digest + b"}:" + kind + b":" + names

    def sessions(self) -> bytes:
        return self._key(b"sessions")

    def user(self, user_id: str) -> bytes:
        return self._key(b"user", user_id)

    def session(self, session_id: str) -> bytes:
        return self._key(b"session", session_id)

    def turns(self, session_id: str) -> bytes:
        return self._key(b"turns", session_id)

    def seen(self, session_id: str) -> bytes:
        return self._key(b"seen", session_id)

    def tokens(self, session_id: str, tokenizer_hash: str, revision: str) -> bytes:
        return self._key(b"tokens", session_id, tokenizer_hash, revision)

    def gone(self, session_id: str) -> bytes:
        return self._key(b"gone", session_id)

    def gone_user(self, user_id: str) -> bytes:
        return self._key(b"gone-user", user_id)

    def usage(self) -> bytes:
        return self._key(b"usage")

    def session_usage(self, session_id: str) -> bytes:
        return self._key(b"session-usage", session_id)

    def heat(self) -> bytes:
        return self._key(b"heat")

    def requests(self) -> bytes:
        return self._key(b"requests")

    def ring(self) -> bytes:
        return self._key(b"ring")

    def questions(self) -> tuple[bytes, bytes, bytes]:
        return self._key(b"question-heat"), self._key(b"question-texts"), self._key(b"question-askers")
