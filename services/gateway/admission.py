"""Route classes: how many requests of a class run at once, and who waits in which place."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.gateway.config import RouteConfig


@dataclass(frozen=True)
class Place:
    """Where a waiting request stands."""

    position: int
    """Requests ahead of it, in the queue; 0: it runs."""
    estimated_wait_ms: int


class RouteQueue:
    """First come, first served, with a bound on both the running and the waiting."""

    def __init__(self, config: RouteConfig) -> None:
        self._config = config
        self._num_entered = 0
        self._num_running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._mean_run_s = 1.0

    @property
    def num_running(self) -> int:
        return self._num_running

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def can_enter(self) -> bool:
        """Whether a further request would run or find a place in the queue."""
        return self._num_entered < self._config.max_concurrency + self._config.max_queue

    def enter(self) -> None:
        """Take a place, for a request that will ask for a slot; to be given back with `leave`."""
        self._num_entered += 1

    def leave(self) -> None:
        self._num_entered -= 1

    @asynccontextmanager
    async def slot(self, on_place: Callable[[Place], None], report_every_s: float = 1.0) -> AsyncIterator[None]:
        """Wait for a turn, reporting the place at once and then whenever it changed, and hold the slot."""
        loop = asyncio.get_running_loop()
        if self._num_running < self._config.max_concurrency and not self._waiting:
            self._num_running += 1
        else:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            await self._wait(turn, on_place, report_every_s)
        started_s = loop.time()
        try:
            yield
        finally:
            self._mean_run_s += 0.1 * (loop.time() - started_s - self._mean_run_s)
            self._release()

    async def _wait(self, turn: asyncio.Future[None], on_place: Callable[[Place], None], report_every_s: float) -> None:
        reported = -1
        try:
            while not turn.done():
                position = self._waiting.index(turn) + 1
                if position != reported:
                    on_place(Place(position, self._estimate_ms(position)))
                    reported = position
                await asyncio.wait({turn}, timeout=report_every_s)
        except asyncio.CancelledError:
            if turn.done():
                self._release()  # the turn had come: hand it on
            else:
                self._waiting.remove(turn)
            raise

    def _estimate_ms(self, position: int) -> int:
        return int(position * self._mean_run_s * 1000 / self._config.max_concurrency)

    def _release(self) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._num_running -= 1
