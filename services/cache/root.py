"""The epoch and the secret of a mesh: made once, kept in Redis, shared by all cache services."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.cache.keys import EPOCH, SECRET

Script = Callable[..., Awaitable[list[bytes]]]


@dataclass(frozen=True)
class Root:
    epoch: int
    """Stands in every key; an operator who raises it (`INCR` of `keys.EPOCH`) invalidates all sessions and leases."""
    secret: bytes
    """32 random bytes, from which salts are derived."""


class RootReader:
    """Reads the root at most every `refresh_s`."""

    def __init__(self, script: Script, *, refresh_s: float, ttl_s: int, clock: Callable[[], float] = time.monotonic):
        self._script = script
        self._refresh_s = refresh_s
        self._ttl_s = ttl_s
        self._clock = clock
        self._root: Root | None = None
        self._read_at_s = 0.0

    @property
    def fresh(self) -> Root | None:
        """The root, while it need not be read again."""
        return self._root if self._clock() - self._read_at_s < self._refresh_s else None

    async def read(self) -> Root:
        if (root := self.fresh) is not None:
            return root
        read_at_s = self._clock()
        # The first epoch is the time, so that a lost epoch never comes back to one that has been used.
        epoch, secret = await self._script(
            keys=[EPOCH, SECRET], args=[time.time_ns() // 1_000_000, secrets.token_bytes(32), self._ttl_s]
        )
        self._root, self._read_at_s = Root(int(epoch), bytes(secret)), read_at_s
        return self._root
