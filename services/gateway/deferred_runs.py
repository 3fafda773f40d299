"""Deferred requests, when their time has come: run for a worker, the most urgent first; given up, or too old.

A worker comes with the request that its event names. What runs is the most urgent one that nobody works on, as the
outbox's index says: an event is a ticket, and Kafka's order decides nothing.
"""

from __future__ import annotations

from contextlib import aclosing

from services.gateway import metrics
from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway
from services.gateway.ledger import Claim, Entry
from services.gateway.runner import Runner
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import DeadlineExceeded, NotFound, StagemeshError, Unavailable, to_detail

LOOKED_AT = 128
"""Entries at the head of the index that are tried: more than workers have in work at a time."""
MORE_URGENT_FIRST = "MORE_URGENT_FIRST"


class DeferredRuns:
    def __init__(self, gateway: Gateway, runner: Runner, config: GatewayConfig) -> None:
        self._gateway = gateway
        self._ledger = runner.ledger
        self._deferral = runner.deferral
        self._max_runs = config.deferred_max_runs

    async def run(self, tenant_id: str, request_id: str) -> gateway_pb2.Final:
        """Run a deferred request now, for a worker; the outcome, or why there is none yet.

        Raises Unavailable when it cannot run yet, with MORE_URGENT_FIRST after the run of another one that goes before
        it (ask again at once), and NotFound if it is unknown.
        """
        entry = await self._ledger.call(self._ledger.ledger.lookup(tenant_id, request_id))
        if entry is None:
            await self._deferral.confirm(tenant_id, request_id)
            raise NotFound("REQUEST_NOT_FOUND", f"there is no request {request_id}", field="request_id")
        if entry.final is not None:
            await self._deferral.confirm(tenant_id, request_id)
            return entry.final
        claim = await self._claim_first(tenant_id, request_id)
        if claim is None:
            raise Unavailable("REQUEST_RUNNING", "another gateway works on it", retry_after_ms=2_000)
        final = await self._run(claim)
        if (claim.tenant_id, claim.request_id) != (tenant_id, request_id):
            raise Unavailable(MORE_URGENT_FIRST, "a more urgent request was run; ask again", retry_after_ms=1)
        return final

    async def _claim_first(self, tenant_id: str, request_id: str) -> Claim | None:
        """The most urgent request that nobody works on, or the named one where the index does not have it."""
        first = await self._deferral.outbox.most_urgent(0, LOOKED_AT)
        for candidate in [*first, *([] if (tenant_id, request_id) in first else [(tenant_id, request_id)])]:
            claim = await self._ledger.call(self._ledger.ledger.claim(*candidate, deferred=True))
            if isinstance(claim, Claim):
                return claim
            if claim is None or (claim.final is not None and candidate != (tenant_id, request_id)):
                await self._settle(*candidate, claim)
        return None

    async def _settle(self, tenant_id: str, request_id: str, entry: Entry | None) -> None:
        """It stands in the index and will not run. A dead letter stays there until a worker has told of it."""
        if entry is None or entry.final is None or entry.final.outcome != common_pb2.OUTCOME_DEAD_LETTERED:
            await self._deferral.confirm(tenant_id, request_id)

    async def _run(self, claim: Claim) -> gateway_pb2.Final:
        if claim.runs > self._max_runs:
            error = Unavailable("ATTEMPTS_USED_UP", f"{self._max_runs} runs of the request were cut off")
            return await self._end(claim, common_pb2.OUTCOME_DEAD_LETTERED, error)
        try:
            running = await self._gateway.resume(claim)
        except StagemeshError as error:  # the configuration no longer knows its model or route
            return await self._end(claim, common_pb2.OUTCOME_DEAD_LETTERED, error)
        async with aclosing(running.events()) as events:
            async for event in events:
                if event.HasField("queued") and event.queued.deferred:
                    raise Unavailable("STILL_OVER_CAPACITY", "it cannot run yet and waits again", retry_after_ms=2_000)
                if event.HasField("final"):
                    return event.final
        raise Unavailable("HANDED_OVER", "this gateway stops; the request goes on elsewhere", retry_after_ms=1_000)

    async def _end(
        self, claim: Claim, outcome: common_pb2.Outcome.ValueType, error: StagemeshError
    ) -> gateway_pb2.Final:
        """End a claimed request without a run; gives the outcome that holds."""
        final = gateway_pb2.Final(request_id=claim.request_id, outcome=outcome, error=to_detail(error))
        if await self._ledger.call(self._ledger.ledger.finish(claim.tenant_id, final)):
            metrics.DEFERRED_ENDED.labels(common_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_").lower()).inc()
        return final

    async def give_up(self, tenant_id: str, request_id: str, error: StagemeshError) -> gateway_pb2.Final:
        """A worker's attempts are used up: the request is dead-lettered, unless it has ended otherwise."""
        final = gateway_pb2.Final(
            request_id=request_id, outcome=common_pb2.OUTCOME_DEAD_LETTERED, error=to_detail(error)
        )
        if await self._ledger.call(self._ledger.ledger.finish(tenant_id, final, owned=False)):
            metrics.DEFERRED_ENDED.labels("dead_lettered").inc()
        await self._deferral.confirm(tenant_id, request_id)
        entry = await self._ledger.call(self._ledger.ledger.lookup(tenant_id, request_id))
        return entry.final if entry is not None and entry.final is not None else final

    async def expire(self, tenant_id: str, request_id: str) -> None:
        """A deferred request waited too long. One that runs at this moment goes on to its own end."""
        claim = await self._ledger.call(self._ledger.ledger.claim(tenant_id, request_id, deferred=True))
        if not isinstance(claim, Claim):
            return
        error = DeadlineExceeded("DEFERRED_EXPIRED", "the request waited too long for capacity")
        await self._end(claim, common_pb2.OUTCOME_EXPIRED, error)
