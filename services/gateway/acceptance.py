"""Accepting a request: once, if there is room, and durably where that is promised."""

from __future__ import annotations

import asyncio
import time

from services.gateway.adapters import AdapterPermits, WantedAdapter, unknown_model
from services.gateway.admission import RouteQueue
from services.gateway.admitting import admit
from services.gateway.config import GatewayConfig
from services.gateway.job import Job, make_job
from services.gateway.ledger import Begun, Ledger
from services.gateway.rates.sampler import reading_of
from services.gateway.requests import Requests
from services.gateway.runner import Runner
from services.gateway.running import RunningRequest
from services.gateway.tenants import Tenant
from services.gateway.work import Delivered
from services.gateway.workbench import Workbench
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import AlreadyExists, Exhausted, Internal, StagemeshError, Unavailable, to_detail
from stagemesh.runtime.mesh_config import MeshConfig

QUEUE_RETRY_MS = 1_000
LEAD_TURNS = 3
"""Turns of the event loop that work has before the ledger is asked beside it: enough to send its first call, which the
first token waits for; writing to the ledger costs this process more than that."""
WAIT_DOUBT = 2.0
"""By how much an estimate of the wait must exceed what is left before it refuses a request."""


class Acceptance:
    def __init__(
        self,
        mesh: MeshConfig,
        config: GatewayConfig,
        runner: Runner,
        requests: Requests,
        workbench: Workbench,
        permits: AdapterPermits,
    ) -> None:
        self._mesh = mesh
        self._config = config
        self._runner = runner
        self._requests = requests
        self._workbench = workbench
        self._permits = permits
        self._accepting: set[asyncio.Task[RunningRequest]] = set()

    @property
    def _ledger(self) -> Ledger:
        return self._runner.ledger.ledger

    async def accept(self, tenant: Tenant, request: gateway_pb2.InferenceRequest, deadline: Deadline) -> RunningRequest:
        """The request as it runs here or elsewhere. Raises StagemeshError when it is refused.

        A caller who leaves meanwhile does not break it off, since the ledger may know the request by then: that
        caller leaves an accepted request.
        """
        accepting = asyncio.create_task(self._accept(tenant, request, deadline), name="accept")
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)
        try:
            return await asyncio.shield(accepting)
        except asyncio.CancelledError:
            accepting.add_done_callback(_abandon)
            raise

    async def drain(self) -> None:
        """Wait for what is being accepted; each call of the ledger has its budget."""
        if self._accepting:
            await asyncio.wait(self._accepting)

    async def _accept(
        self, tenant: Tenant, request: gateway_pb2.InferenceRequest, deadline: Deadline
    ) -> RunningRequest:
        accepted_s = time.monotonic()
        deadline.budget_s()
        job = make_job(tenant.tenant_id, request, self._mesh, self._config)
        if job.adapter and not await self._permits.allows(tenant.tenant_id, job.adapter):
            raise unknown_model(request.model)
        await admit()
        key = (job.tenant_id, job.request_id)
        if job.explicit_id and (known := self._requests.running(key)) is not None:
            if self._requests.hash_of(key) != job.payload_hash:
                raise _reused(job)
            return known
        job = await self._runner.modes.decide(job)
        refusal = self._why_not_now(job, deadline)
        over = refusal is not None
        if refusal is not None and not job.request.allow_deferral:
            return await self._attach_or_refuse(job, refusal)
        running = self._requests.register(job)
        if not over:
            self._queue(job).enter(job.tenant_id)  # at once: others are looked at while this waits for the ledger
        if not (over or job.explicit_id or job.request.resumable):
            await self._work_meanwhile(job, running, deadline, accepted_s)
            return running
        started = False
        try:
            running, started = await self._begin(job, running, deadline, accepted_s, over=over)
        except Exception as error:
            self._requests.forget(key)
            running.publish(final=_rejected(job.request_id, error))  # for those who attached meanwhile
            raise
        finally:
            if not over and not started:
                self._queue(job).leave(job.tenant_id)
        return running

    def _queue(self, job: Job) -> RouteQueue:
        return self._runner.queues[job.route_name]

    def _why_not_now(self, job: Job, deadline: Deadline) -> StagemeshError | None:
        """Why the request cannot be worked on now, though perhaps later; None when it can."""
        engines, mode, adapter = (
            self._runner.peers.engines,
            job.request.policy.precision_mode,
            WantedAdapter(job.adapter),
        )
        wait_s, remaining_s = self._queue(job).wait_s(job.tenant_id), deadline.remaining_s()
        late_s = wait_s - remaining_s
        if wait_s > WAIT_DOUBT * remaining_s:
            return Exhausted(
                "DEADLINE_UNREACHABLE",
                f"its turn among {job.route_name} requests would come {late_s:.1f} s after the deadline: "
                "give it more time, retry, or allow deferral",
                retry_after_ms=max(QUEUE_RETRY_MS, int(1000 * late_s)),
            )
        limit = self._config.engine_queue_limit
        if not self._queue(job).can_enter(job.tenant_id) or engines.is_over(job.model, mode, limit, adapter):
            return Exhausted(
                "QUEUE_FULL",
                f"too many {job.route_name} requests wait already; retry, or allow deferral",
                retry_after_ms=QUEUE_RETRY_MS,
            )
        readings = [reading_of(link) for link in engines.serving(job.model, mode, adapter)]
        return self._runner.guards.refusal(job.tenant_id, readings)

    async def _attach_or_refuse(self, job: Job, refusal: StagemeshError) -> RunningRequest:
        """It cannot be now and is not to be deferred: only a request that was accepted before can still be answered."""
        if job.explicit_id:
            entry = await self._runner.ledger.call(self._ledger.lookup(job.tenant_id, job.request_id))
            if entry is not None and entry.payload_hash != job.payload_hash:
                raise _reused(job)
            if entry is not None:
                return self._requests.follow(job.tenant_id, job.request_id)
        raise refusal

    async def _begin(
        self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float, *, over: bool
    ) -> tuple[RunningRequest, bool]:
        """The request to follow, and whether this gateway has started to work on it."""
        try:
            begun, final = await self._runner.ledger.call(
                self._ledger.begin(job.tenant_id, job.request, job.payload_hash, time.time() + deadline.remaining_s())
            )
        except Unavailable as error:
            raise Unavailable(
                "LEDGER_UNAVAILABLE",
                "the ledger is away: requests with an ID of their own, resumable and deferred ones wait for it",
                retry_after_ms=1_000,
            ) from error
        if begun is Begun.MISMATCH:
            raise _reused(job)
        if begun is Begun.NEW and over:
            return await self._defer_now(job, running, deadline, accepted_s), False
        if begun is Begun.NEW:
            keep_events = job.request.resumable
            self._workbench.start(job, running, deadline, accepted_s, Delivered(), keep_events=keep_events)
            return running, True
        self._requests.forget((job.tenant_id, job.request_id))
        if final is not None:
            running.publish(final=final)
        else:
            self._requests.follow_into(running)
        return running, False

    async def _work_meanwhile(self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float) -> None:
        """Begin in the ledger and with the work at once: the ID is new, so the ledger can say nothing against it.

        The caller hears nothing before the ledger knows of the request, or is known to be away.
        """
        begun = asyncio.Event()
        work = self._workbench.start(job, running, deadline, accepted_s, Delivered(), begun=begun)
        deadline_s = time.time() + deadline.remaining_s()
        try:
            for _ in range(LEAD_TURNS):
                await asyncio.sleep(0)
            await self._runner.ledger.call(self._ledger.begin(job.tenant_id, job.request, job.payload_hash, deadline_s))
        except Unavailable:
            work.log_stages.ledger_away()
        finally:
            begun.set()

    async def _defer_now(
        self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float
    ) -> RunningRequest:
        work = self._workbench.new_work(job, running, deadline, accepted_s, Delivered())
        if not await self._runner.deferral.defer(work):
            error = Exhausted("QUEUE_FULL", "too many requests wait, also deferred ones", retry_after_ms=5_000)
            await self._runner.ledger.finish(job.tenant_id, _rejected(job.request_id, error))
            raise error
        self._requests.forget((job.tenant_id, job.request_id))
        self._requests.follow_into(running)
        return running


def _reused(job: Job) -> AlreadyExists:
    return AlreadyExists(
        "REQUEST_ID_REUSED",
        f"the request ID {job.request_id} was used for another request; take a new one",
        field="request_id",
    )


def _rejected(request_id: str, error: Exception) -> gateway_pb2.Final:
    known = error if isinstance(error, StagemeshError) else Internal("INTERNAL", "an unexpected fault in the gateway")
    return gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_REJECTED, error=to_detail(known))


def _abandon(accepting: asyncio.Task[RunningRequest]) -> None:
    """The caller has left."""
    if not accepting.cancelled() and accepting.exception() is None:
        accepting.result().abandon()
