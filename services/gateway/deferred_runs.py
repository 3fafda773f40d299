"""Deferred requests, when their time has come: run for a worker, given up, or too old."""

from __future__ import annotations

from contextlib import aclosing

from services.gateway.core import Gateway
from services.gateway.ledger import Claim, Entry
from services.gateway.runner import Runner
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import DeadlineExceeded, NotFound, StagemeshError, Unavailable, to_detail


class DeferredRuns:
    def __init__(self, gateway: Gateway, runner: Runner) -> None:
        self._gateway = gateway
        self._ledger = runner.ledger
        self._deferral = runner.deferral

    async def run(self, tenant_id: str, request_id: str) -> gateway_pb2.Final:
        """Run a deferred request now, for a worker. Raises Unavailable when it cannot run yet, NotFound if unknown."""
        claim = await self._ledger.call(self._ledger.ledger.claim(tenant_id, request_id, deferred=True))
        if claim is None:
            await self._deferral.confirm(tenant_id, request_id)
            raise NotFound("REQUEST_NOT_FOUND", f"there is no request {request_id}", field="request_id")
        if isinstance(claim, Entry):
            if claim.final is not None:
                await self._deferral.confirm(tenant_id, request_id)
                return claim.final
            raise Unavailable("REQUEST_RUNNING", "another gateway works on it", retry_after_ms=2_000)
        running = await self._gateway.resume(claim)
        async with aclosing(running.events()) as events:
            async for event in events:
                if event.HasField("queued") and event.queued.deferred:
                    raise Unavailable("STILL_OVER_CAPACITY", "it cannot run yet and waits again", retry_after_ms=2_000)
                if event.HasField("final"):
                    return event.final
        raise Unavailable("HANDED_OVER", "this gateway stops; the request goes on elsewhere", retry_after_ms=1_000)

    async def give_up(self, tenant_id: str, request_id: str, error: StagemeshError) -> gateway_pb2.Final:
        """A worker's attempts are used up: the request is dead-lettered, unless it has ended otherwise."""
        final = gateway_pb2.Final(
            request_id=request_id, outcome=common_pb2.OUTCOME_DEAD_LETTERED, error=to_detail(error)
        )
        await self._ledger.call(self._ledger.ledger.finish(tenant_id, final, owned=False))
        await self._deferral.confirm(tenant_id, request_id)
        entry = await self._ledger.call(self._ledger.ledger.lookup(tenant_id, request_id))
        return entry.final if entry is not None and entry.final is not None else final

    async def expire(self, tenant_id: str, request_id: str) -> None:
        """A deferred request waited too long. One that runs at this moment goes on to its own end."""
        claim = await self._ledger.call(self._ledger.ledger.claim(tenant_id, request_id, deferred=True))
        if not isinstance(claim, Claim):
            return
        error = DeadlineExceeded("DEFERRED_EXPIRED", "the request waited too long for capacity")
        final = gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_EXPIRED, error=to_detail(error))
        await self._ledger.call(self._ledger.ledger.finish(tenant_id, final))
