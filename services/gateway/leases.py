"""Keeps this gateway's requests its own, and takes over those whose gateway fell silent."""

from __future__ import annotations

import asyncio

from services.gateway.core import Gateway
from services.gateway.deferred_runs import DeferredRuns
from services.gateway.ledger import Claim
from services.gateway.store import GuardedLedger
from stagemesh.runtime.errors import StagemeshError, Unavailable
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

RENEWED_AT_ONCE = 32
"""Leases in one call of the ledger, which has a budget of its own."""


class LeaseKeeper:
    def __init__(
        self, gateway: Gateway, deferred: DeferredRuns, ledger: GuardedLedger, *, lease_s: float, max_runs: int
    ) -> None:
        self._gateway = gateway
        self._deferred = deferred
        self._ledger = ledger
        self._lease_s = lease_s
        self._max_runs = max_runs
        self._task = asyncio.create_task(self._run(), name="lease-keeper")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Renew three times per lease. After the ledger was away, others get a whole lease to renew first."""
        quiet_rounds = 0
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                await self._renew()
                if quiet_rounds:
                    quiet_rounds -= 1
                else:
                    await self._take_over()
            except Unavailable:
                quiet_rounds = 3
            except Exception:
                log.exception("lease round failed")  # and go on: the loop must live as long as the process

    async def _renew(self) -> None:
        pairs = self._gateway.working_on()
        for begin in range(0, len(pairs), RENEWED_AT_ONCE):
            some = pairs[begin : begin + RENEWED_AT_ONCE]
            cancelled = await self._ledger.call(self._ledger.ledger.renew(some))
            for tenant_id, request_id in cancelled:
                self._gateway.cancel_locally(tenant_id, request_id)

    async def _take_over(self) -> None:
        mine = set(self._gateway.working_on())
        for tenant_id, request_id in await self._ledger.call(self._ledger.ledger.expired_leases()):
            if (tenant_id, request_id) in mine or self._ledger.is_late(tenant_id, request_id):
                continue
            found = await self._ledger.call(self._ledger.ledger.claim(tenant_id, request_id, deferred=False))
            if isinstance(found, Claim):
                log.info("takes over", request_id=request_id, tenant_id=tenant_id)
                try:
                    if found.runs > self._max_runs:
                        raise Unavailable("ATTEMPTS_USED_UP", f"{self._max_runs} runs of the request were cut off")
                    await self._gateway.resume(found)
                except StagemeshError as error:  # or the configuration no longer knows its model or route
                    await self._deferred.give_up(tenant_id, request_id, error)
            else:
                await self._ledger.call(self._ledger.ledger.forget_lease(tenant_id, request_id))
