"""A bounded number of places, shared fairly among those who wait."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """Whoever waits is served in turn by lane. A named lane never has all places; without a name there is no bound."""

    def __init__(self, num_slots: int) -> None:
        self._num_free = num_slots
        self._max_per_lane = max(1, num_slots - 1)
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, lane: str = "") -> None:
        """Wait for a place; give it back with `release`."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lane, deque()).append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release(lane)
            raise

    @asynccontextmanager
    async def held(self, lane: str = "") -> AsyncIterator[None]:
        """A place, for the time within."""
        await self.acquire(lane)
        try:
            yield
        finally:
            self.release(lane)

    def release(self, lane: str = "") -> None:
        self._num_free += 1
        self._taken[lane] -= 1
        if not self._taken[lane]:
            del self._taken[lane]
        self._grant()

    def _grant(self) -> None:
        while self._num_free and (lane := self._next_lane()) is not None:
            queue = self._waiting.pop(lane)
            granted = queue.popleft()
            if queue:
                self._waiting[lane] = queue  # at the end: the others come first
            if not granted.cancelled():
                self._num_free -= 1
                self._taken[lane] += 1
                granted.set_result(None)

    def _next_lane(self) -> str | None:
        return next((lane for lane in self._waiting if not lane or self._taken[lane] < self._max_per_lane), None)
