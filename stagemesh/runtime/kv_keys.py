"""How stored KV pages are named: the cache service and the engines compute the same names from the same secret.

A page of PAGE_TOKENS tokens is known by a chain: HMAC-SHA256 over the digest of the page before it and its own tokens,
keyed with what follows from the lease's salt, the tenant, the precision of the weights and the adapter. The salt itself
is an HMAC over the whole model identity, an adapter's included, under a secret that only the cache service holds, so
nobody can compute, guess or probe the name of another tenant's page.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from array import array
from collections.abc import Iterable, Iterator

PAGE_TOKENS = 16
DIGEST_BYTES = 32


def netstrings(*parts: bytes) -> bytes:
    """An unambiguous concatenation: equal only for equal lists of parts."""
    return b"".join(b"%d:%b," % (len(part), part) for part in parts)


def adapter_label(name: str, generation: int, revision: str) -> str:
    """What pages computed with an adapter are known by; empty without one. The arguments are `ModelIdentity`'s."""
    return f"{name}@{generation}:{revision}" if name else ""


def chain_key(salt: bytes, tenant_id: str, precision: str, adapter: str = "") -> bytes:
    """The key of a chain of pages: 32 bytes. `precision` is that of `ModelIdentity`, of the mode that computes;
    `adapter` what `adapter_label` says."""
    parts = [b"page", tenant_id.encode(), precision.encode()]
    return hmac.digest(salt, netstrings(*parts, *([adapter.encode()] if adapter else ())), "sha256")


def page_digests(key: bytes, tokens: Iterable[int], parent: bytes = b"") -> Iterator[bytes]:
    """The digest of each full page of `tokens`, in order; `parent` is that of the page before them."""
    ids = array("I", tokens)  # the cache service has no numpy
    if sys.byteorder == "big":
        ids.byteswap()
    data = ids.tobytes()
    size = PAGE_TOKENS * 4
    for start in range(0, len(data) - size + 1, size):
        parent = hmac.digest(key, parent + data[start : start + size], "sha256")
        yield parent


def namespace(tenant_id: str, epoch: int) -> bytes:
    """Begins the names of all that the KV Redis holds of a tenant; the braces keep it in one slot of a cluster."""
    tenant = tenant_id.encode()
    digest = hashlib.blake2b(netstrings(b"%d" % epoch, tenant), digest_size=16).hexdigest().encode()
    return b"stagemesh:kv:{" + digest + b"}:"


def value_name(space: bytes, digest: bytes) -> bytes:
    """The key under which the bytes of a page lie."""
    return space + b"v:" + digest
