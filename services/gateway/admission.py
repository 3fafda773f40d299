"""Route classes: how many requests of a class run at once, and who waits in which place.

Tenants take turns: of those that wait, the next is of the tenant that had the fewest turns, and within a tenant the one
that came first. A tenant that comes anew starts with as many turns as the least served of those that are there, so that
nobody saves up turns by staying away (the virtual counters of Sheng et al. 2024, in turns instead of tokens).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.gateway.config import RouteConfig

MIN_SHARED_PLACES = 8
"""From so many places on, a quarter is kept from each single tenant, so that others find room."""
MIN_MEASURED_RUNS = 8
"""Before so many requests have ended, nobody is refused for the time that the queue takes."""


@dataclass(frozen=True)
class Place:
    """Where a waiting request stands."""

    position: int
    """Requests ahead of it, in the queue; 0: it runs."""
    estimated_wait_ms: int


@dataclass(eq=False)
class _Waiter:
    tenant_id: str
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RouteQueue:
    """Bounded in what runs and what waits, for all tenants together and for each."""

    def __init__(self, config: RouteConfig) -> None:
        self._config = config
        self._entered: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        """By tenant."""
        self._turns: Counter[str] = Counter()
        """That tenants have had, of those that run or wait."""
        self._waiting: list[_Waiter] = []
        """As they came."""
        self._mean_run_s = 1.0
        self._num_runs = 0

    @property
    def num_running(self) -> int:
        return self._running.total()

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def can_enter(self, tenant_id: str) -> bool:
        """Whether a further request of the tenant would run or find a place in the queue."""
        places = self._config.max_concurrency + self._config.max_queue
        of_tenant = places - places // 4 if places >= MIN_SHARED_PLACES else places
        return self._entered.total() < places and self._entered[tenant_id] < of_tenant

    def enter(self, tenant_id: str) -> None:
        """Take a place, for a request that will ask for a slot; to be given back with `leave`."""
        self._entered[tenant_id] += 1

    def leave(self, tenant_id: str) -> None:
        _take_one(self._entered, tenant_id)

    def wait_s(self, tenant_id: str) -> float:
        """How long a further request of the tenant is estimated to wait for its turn; 0 while little is known."""
        if self._num_runs < MIN_MEASURED_RUNS or self._may_run(tenant_id):
            return 0.0
        ahead = min(self.num_waiting, self._num_ahead(tenant_id))
        return (ahead + 1) * self._mean_run_s / self._config.max_concurrency

    @asynccontextmanager
    async def slot(
        self, tenant_id: str, on_place: Callable[[Place], None], report_every_s: float = 1.0
    ) -> AsyncIterator[None]:
        """Wait for a turn, reporting the place at once and then whenever it changed, and hold the slot."""
        loop = asyncio.get_running_loop()
        self._lift(tenant_id)
        if self._may_run(tenant_id) and not self._waiting:
            self._take_turn(tenant_id)
        else:
            waiter = _Waiter(tenant_id)
            self._waiting.append(waiter)
            self._give_turns()
            await self._wait(waiter, on_place, report_every_s)
        started_s = loop.time()
        try:
            yield
        finally:
            self._mean_run_s += 0.1 * (loop.time() - started_s - self._mean_run_s)
            self._num_runs += 1
            self._release(tenant_id)

    async def _wait(self, waiter: _Waiter, on_place: Callable[[Place], None], report_every_s: float) -> None:
        reported = -1
        try:
            while not waiter.turn.done():
                position = self._order().index(waiter) + 1
                if position != reported:
                    on_place(Place(position, self._estimate_ms(position)))
                    reported = position
                await asyncio.wait({waiter.turn}, timeout=report_every_s)
        except asyncio.CancelledError:
            if waiter.turn.done():
                self._release(waiter.tenant_id)  # the turn had come: hand it on
            else:
                self._waiting.remove(waiter)
                self._give_turns()
            raise

    def _order(self) -> list[_Waiter]:
        """Those that wait, in the order of their turns."""
        turns = Counter(self._turns)
        ranks: dict[_Waiter, int] = {}
        for waiter in self._waiting:
            ranks[waiter] = turns[waiter.tenant_id]
            turns[waiter.tenant_id] += 1
        return sorted(self._waiting, key=lambda waiter: ranks[waiter])

    def _num_ahead(self, tenant_id: str) -> int:
        """Of those that wait, how many come before a further request of the tenant."""
        of_tenant = self._turns[tenant_id] + sum(waiter.tenant_id == tenant_id for waiter in self._waiting)
        turns = Counter(self._turns)
        ahead = 0
        for waiter in self._waiting:
            ahead += turns[waiter.tenant_id] <= of_tenant
            turns[waiter.tenant_id] += 1
        return ahead

    def _estimate_ms(self, position: int) -> int:
        return int(position * self._mean_run_s * 1000 / self._config.max_concurrency)

    def _may_run(self, tenant_id: str) -> bool:
        most = self._config.max_concurrency_per_tenant or self._config.max_concurrency
        return self.num_running < self._config.max_concurrency and self._running[tenant_id] < most

    def _release(self, tenant_id: str) -> None:
        _take_one(self._running, tenant_id)
        self._give_turns()

    def _give_turns(self) -> None:
        while self._waiting and self.num_running < self._config.max_concurrency:
            waiter = next((waiter for waiter in self._order() if self._may_run(waiter.tenant_id)), None)
            if waiter is None:
                return
            self._waiting.remove(waiter)
            self._take_turn(waiter.tenant_id)
            waiter.turn.set_result(None)

    def _take_turn(self, tenant_id: str) -> None:
        self._running[tenant_id] += 1
        self._turns[tenant_id] += 1

    def _lift(self, tenant_id: str) -> None:
        """A request of the tenant has come; those who are gone are forgotten."""
        present = self._running.keys() | {waiter.tenant_id for waiter in self._waiting}
        if tenant_id in present:
            return
        self._turns = Counter({known: self._turns[known] for known in present})
        self._turns[tenant_id] = min(self._turns.values(), default=0)


def _take_one(counts: Counter[str], tenant_id: str) -> None:
    counts[tenant_id] -= 1
    if counts[tenant_id] <= 0:
        del counts[tenant_id]
