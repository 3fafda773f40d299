"""What lies in the KV Redis, and under which names.

The KV Redis is one server, not a cluster: a script may look at several tenants. `NS` is a tenant's namespace
(`kv_keys.namespace`); the namespace of public pages looks the same.

| key | type | what |
|---|---|---|
| `NS v:DIGEST` | string | the bytes of a page; unpublished ones have a short TTL and are counted nowhere |
| `NS order` | sorted set | published pages by worth: last use + horizon + cost, in seconds; pinned ones 2^40 above |
| `NS expiry` | sorted set | published pages by the end of their value's TTL |
| `NS pages` | hash | footprint in bytes, horizon, cost, and the tags of the last four holders of each page |
| `NS pins` | sorted set | protected pages by the end of their protection |
| `NS sums` | hash | bytes that are pinned; pages published, evicted, expired, vanished, forgotten so far |
| `NS held:TAG` | set | pages that a session (or a user without one) has stored or used |
| `NS of:TAG` | set | tags of a user's sessions |
| `NS l:LEASE` | hash | whose a lease is, and how often that holder had been erased when it was given |
| `NS gone:TAG` | counter | erasures of a holder |
| `stagemesh:kv:{all}:spaces` | sorted set | namespaces by bytes |
| `stagemesh:kv:{all}:bytes` | counter | bytes of all namespaces |
| `stagemesh:kv:{all}:limits` | hash | budgets and times; without it nothing is found and nothing may be published |

All have a TTL; that of an index is an hour longer than that of its pages.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from stagemesh.runtime.kv_keys import netstrings

TAG_BYTES = 16


def holder_tag(kind: str, name: str) -> bytes:
    """Stands for a session (`kind` "session") or a user ("user") within a namespace: 16 bytes; none for no name."""
    if not name:
        return b""
    return hashlib.blake2b(netstrings(kind.encode(), name.encode()), digest_size=TAG_BYTES).digest()


@dataclass(frozen=True)
class Holder:
    """For whom pages are stored and used; what neither a session nor a user holds ends by its TTL only."""

    session_id: str = ""
    user_id: str = ""

    @property
    def user_tag(self) -> bytes:
        return holder_tag("user", self.user_id)

    @property
    def tag(self) -> bytes:
        return holder_tag("session", self.session_id) or self.user_tag


@cache
def script(name: str) -> str:
    """The source of `scripts/NAME.lua` with what all scripts share in front of it."""
    folder = files("stagemesh.runtime.kv_directory").joinpath("scripts")
    parts = (folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in ("common", name))
    # Scripts take little and give much back: they must run where the memory is used up.
    return "\n".join(["#!lua flags=allow-oom", *parts])
