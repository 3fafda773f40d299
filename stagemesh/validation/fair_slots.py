"""A bounded number of places, shared fairly among those who wait."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


class FairSlots:
    """Whoever waits is served in turn by lane. A named lane never has all of several places, but it has the
    only one where there is one; without a name there is no bound."""

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

    async def run(self, start: Callable[[], asyncio.Future[T]], lane: str = "") -> T:
        """The outcome of what `start` begins, which keeps its place until it is done: a thread goes on when its caller
        has gone."""
        await self.acquire(lane)
        try:
            running = start()
        except BaseException:
            self.release(lane)
            raise
        running.add_done_callback(lambda done: self._ended(done, lane))
        return await asyncio.shield(running)

    def _ended(self, done: asyncio.Future[T], lane: str) -> None:
        if not done.cancelled():
            done.exception()  # its caller has it, or has gone
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
