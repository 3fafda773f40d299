"""The ledger side of the gateway in one place: what happens to it when Redis is away."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import TypeVar

from redis.exceptions import RedisError

from services.gateway import metrics
from services.gateway.ledger import Ledger
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.breaker import Breaker, BreakerConfig
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.telemetry import get_logger

MAX_LATE = 10_000
RETRY_LATE_S = 0.5

T = TypeVar("T")

log = get_logger(__name__)


class GuardedLedger:
    """The ledger with a budget and a breaker, and a bounded list of outcomes that it still has to be told."""

    def __init__(self, ledger: Ledger, *, timeout_s: float) -> None:
        self.ledger = ledger
        self._timeout_s = timeout_s
        self._breaker = Breaker(BreakerConfig(failure_threshold=3, open_s=0.5))
        metrics.watch_breaker("ledger", self._breaker)
        self._late: deque[tuple[str, gateway_pb2.Final]] = deque()
        self._task = asyncio.create_task(self._keep_telling(), name="late-outcomes")

    async def call(self, coroutine: Awaitable[T]) -> T:
        """Await one ledger call within the budget. Raises Unavailable (LEDGER_UNAVAILABLE)."""
        if not self._breaker.call():
            if asyncio.iscoroutine(coroutine):
                coroutine.close()
            raise Unavailable("LEDGER_UNAVAILABLE", "the ledger is away", retry_after_ms=1_000)
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await coroutine
        except (RedisError, OSError, TimeoutError) as error:
            self._breaker.failed()
            log.warning("ledger away", error=repr(error))
            raise Unavailable("LEDGER_UNAVAILABLE", "the ledger is away", retry_after_ms=1_000) from error
        except asyncio.CancelledError:
            self._breaker.succeeded()  # nothing is known against it
            raise
        self._breaker.succeeded()
        return result

    async def finish(self, tenant_id: str, final: gateway_pb2.Final) -> gateway_pb2.Final:
        """Make the final transition; gives the outcome that holds.

        That is `final`, or what another gateway stored before. With the ledger away `final` holds, and is stored as
        soon as the ledger is back.
        """
        try:
            if await self.call(self.ledger.finish(tenant_id, final)):
                return final
            entry = await self.call(self.ledger.lookup(tenant_id, final.request_id))
        except Unavailable:
            self._remember(tenant_id, final)
            return final
        return entry.final if entry is not None and entry.final is not None else final

    async def close(self, grace_s: float) -> None:
        """Tell what is left within the grace."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(grace_s):
                await self._tell()
        except (Unavailable, TimeoutError):
            log.error("outcomes not stored", num_outcomes=len(self._late))  # noqa: TRY400  counted, not a traceback

    def is_late(self, tenant_id: str, request_id: str) -> bool:
        """Whether the outcome of this request waits for the ledger to come back."""
        return any(owner == tenant_id and final.request_id == request_id for owner, final in self._late)

    def _remember(self, tenant_id: str, final: gateway_pb2.Final) -> None:
        if len(self._late) >= MAX_LATE:
            self._late.popleft()
            metrics.LEDGER_LATE.labels("dropped").inc()
        self._late.append((tenant_id, final))

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(RETRY_LATE_S)
            try:
                await self._tell()
            except Unavailable:
                continue  # still away: the outcomes stay where they are

    async def _tell(self) -> None:
        while self._late:
            tenant_id, final = self._late[0]
            await self.call(self.ledger.finish(tenant_id, final))
            self._late.popleft()
            metrics.LEDGER_LATE.labels("stored").inc()
