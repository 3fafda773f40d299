"""The cache service's side of the directory. Every method but `forget` and `sweep` is one round trip."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from stagemesh.runtime.kv_directory.layout import Holder, script
from stagemesh.runtime.kv_directory.limits import KvLimits
from stagemesh.runtime.kv_directory.stats import SpaceStats, read_stats
from stagemesh.runtime.redis_client import Redis

FORGET_BATCH = 256
SWEEP_BATCH = 128
GONE_SLACK_S = 3_600
NOBODY = Holder()


@dataclass(frozen=True)
class Found:
    pages: int
    """Leading pages that are stored."""
    vanished: int
    """Entries that were taken out because their value had gone."""
    had_next: bool
    """The holder had stored the first page that is missing: it was evicted or its time is over."""
    has_limits: bool = True
    """Without limits nothing is found, and no lease was made known."""


class KvDirectory:
    """Raises redis-py's errors. `client` gives replies as bytes."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        names = ("lookup", "pin", "forget", "sweep", "stats", "limits")
        scripts = (client.register_script(script(name)) for name in names)
        self._lookup, self._pin, self._forget, self._sweep, self._stats, self._limits = scripts

    async def set_limits(self, limits: KvLimits) -> None:
        await self._limits(args=limits.arguments())

    async def lookup(
        self,
        space: bytes,
        digests: Sequence[bytes],
        *,
        ttl_s: int,
        lease_id: str = "",
        lease_ttl_s: int = 0,
        holder: Holder = NOBODY,
        num_public: int = 0,
        public_space: bytes = b"",
        horizon_s: float | None = None,
    ) -> Found:
        """How many of the first pages are stored; they count as used, and live `ttl_s` from now.

        With a `lease_id` the lease is made known, so that pages may be published under it for `lease_ttl_s`; they
        belong to `holder`. The first `num_public` digests are those of `public_space`. This use is worth `horizon_s`
        (`kv_value`), or as much as the pages were when they were stored.
        """
        head: list[Any] = [
            space,
            lease_id,
            lease_ttl_s,
            holder.tag,
            holder.user_tag,
            ttl_s,
            num_public,
            public_space or space,
            "" if horizon_s is None else horizon_s,
        ]
        pages, vanished, had = await self._lookup(args=[*head, *digests])
        return Found(max(0, int(pages)), int(vanished), bool(had), has_limits=int(pages) >= 0)

    async def pin(self, space: bytes, digests: Sequence[bytes], *, ttl_s: int) -> int:
        """Protect stored pages from eviction for `ttl_s`; gives how many are. Their own TTL stays as it is."""
        return int(await self._pin(args=[space, int(time.time()) + ttl_s, *digests]))

    async def unpin(self, space: bytes, digests: Sequence[bytes]) -> int:
        """Gives how many were protected."""
        return int(await self._pin(args=[space, 0, *digests]))

    async def forget_session(self, space: bytes, session_id: str, *, lease_ttl_s: int) -> int:
        """Erase pages that no other living session holds, and refuse what is still to be published for this one.

        Gives the number of pages erased.
        """
        return await self._forget_tag(space, Holder(session_id=session_id).tag, lease_ttl_s)

    async def forget_user(self, space: bytes, user_id: str, *, lease_ttl_s: int) -> int:
        """Likewise of all that was stored for a user, in sessions or without."""
        tag = Holder(user_id=user_id).tag
        pages = await self._forget_tag(space, tag, lease_ttl_s)
        while sessions := cast("list[bytes]", await self._client.srandmember(space + b"of:" + tag, FORGET_BATCH)):
            for session in sessions:
                pages += await self._forget_tag(space, session, lease_ttl_s)
            await self._client.srem(space + b"of:" + tag, *sessions)
        return pages

    async def _forget_tag(self, space: bytes, tag: bytes, lease_ttl_s: int) -> int:
        first, pages, remaining = 1, 0, 1
        while remaining:
            args: list[Any] = [space, tag, first, lease_ttl_s + GONE_SLACK_S, FORGET_BATCH]
            erased, _, remaining = map(int, await self._forget(args=args))
            first, pages = 0, pages + erased
        return pages

    async def num_held(self, space: bytes, tag: bytes) -> int:
        """How many pages a holder has stored or used, those included that are gone since."""
        return int(await self._client.scard(space + b"held:" + tag))

    async def spaces(self) -> list[bytes]:
        """All namespaces that hold pages, the greatest first."""
        return cast("list[bytes]", await self._client.zrange(b"stagemesh:kv:{all}:spaces", 0, -1, desc=True))

    async def sweep(self, space: bytes) -> int:
        """Compare the whole index of a namespace with the values; gives how many entries were wrong."""
        cursor, wrong = b"0", 0
        while True:
            cursor, found = await self._sweep(args=[space, cursor, SWEEP_BATCH])
            wrong += int(found)
            if cursor == b"0":
                return wrong

    async def stats(self, space: bytes) -> SpaceStats:
        return read_stats(await self._stats(args=[space]))
