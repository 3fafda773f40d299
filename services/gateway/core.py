"""The gateway behind its two fronts (gRPC and HTTP): submit, watch, look up, cancel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from services.gateway import metrics
from services.gateway.admission import RouteQueue
from services.gateway.config import GatewayConfig
from services.gateway.event_store import EventStore
from services.gateway.follow import Follower
from services.gateway.job import Job, make_job, resume_job
from services.gateway.ledger import Begun, Claim, Entry, Ledger
from services.gateway.requests import Requests
from services.gateway.runner import Runner
from services.gateway.running import RunningRequest
from services.gateway.stages import StageLog
from services.gateway.tenants import Tenant, Tenants
from services.gateway.work import Delivered, Work, new_outputs
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import (
    AlreadyExists,
    Cancelled,
    Exhausted,
    NotFound,
    StagemeshError,
    Unavailable,
    from_detail,
    to_detail,
)
from stagemesh.runtime.identity import Identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.telemetry import get_logger

QUEUE_RETRY_MS = 1_000
CANCEL_WITHIN_S = 5.0

log = get_logger(__name__)


@dataclass(frozen=True)
class ModelInfo:
    name: str
    aliases: tuple[str, ...]
    created: int
    """Unix time in seconds since which this gateway serves it."""
    context_length: int
    """In tokens; 0 while no engine is up."""


class Gateway:
    def __init__(
        self,
        *,
        mesh: MeshConfig,
        config: GatewayConfig,
        identity: Identity,
        tenants: Tenants,
        runner: Runner,
        events: EventStore,
    ) -> None:
        self._mesh = mesh
        self._config = config
        self._identity = identity
        self._tenants = tenants
        self._runner = runner
        self._events = events
        self._requests = Requests(Follower(runner.ledger, events), max_ended=config.max_stored_requests)
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        self._started_s = int(time.time())

    @property
    def _ledger(self) -> Ledger:
        return self._runner.ledger.ledger

    # --- what the fronts call

    async def authenticate(self, api_key: str | None, tenant_header: str | None) -> Tenant:
        """Raises Unauthenticated or Forbidden."""
        return await self._tenants.authenticate(api_key, tenant_header)

    async def submit(self, tenant: Tenant, request: gateway_pb2.InferenceRequest, deadline: Deadline) -> RunningRequest:
        """Accept a request, or attach to the one that has this ID already.

        Raises StagemeshError when it is refused; after that it will not run.
        """
        try:
            return await self._submit(tenant, request, deadline)
        except StagemeshError as error:
            metrics.REFUSED.labels(error.reason).inc()
            raise

    async def _submit(
        self, tenant: Tenant, request: gateway_pb2.InferenceRequest, deadline: Deadline
    ) -> RunningRequest:
        accepted_s = time.monotonic()
        if self._draining:
            raise Unavailable("DRAINING", "this gateway is about to stop; call again", retry_after_ms=500)
        deadline.budget_s()
        job = make_job(tenant.tenant_id, request, self._mesh, self._config)
        key = (job.tenant_id, job.request_id)
        if job.explicit_id and (known := self._requests.running(key)) is not None:
            if self._requests.hash_of(key) != job.payload_hash:
                raise _reused(job)
            return known
        over = self._is_over(job)
        if over and not job.request.allow_deferral:
            return await self._attach_or_refuse(job)
        running = self._requests.register(job)
        if not over:
            self._queue(job).enter()  # at once: other requests are looked at while this one waits for the ledger
        started = False
        try:
            running, started = await self._begin(job, running, deadline, accepted_s, over=over)
        except StagemeshError as error:
            self._requests.forget(key)
            running.publish(final=_rejected(job.request_id, error))  # for those who attached meanwhile
            raise
        finally:
            if not over and not started:
                self._queue(job).leave()
        return running

    async def watch(self, tenant: Tenant, request_id: str, after_seq: int = 0) -> AsyncGenerator[gateway_pb2.Event]:
        """Events with a greater seq of a running, deferred or ended request. Raises NotFound."""
        request_id = request_id.lower()
        running = self._requests.find((tenant.tenant_id, request_id))
        follower = running is None
        if running is None:
            await self._entry(tenant.tenant_id, request_id)
            running = self._requests.follow(tenant.tenant_id, request_id, after_seq)
        else:
            for event in await self._earlier(running, after_seq):
                after_seq = event.seq
                yield event
        try:
            async with aclosing(running.events(after_seq)) as events:
                async for event in events:
                    yield event
        finally:
            if follower:
                running.cancel()

    async def lookup(self, tenant: Tenant, request_id: str) -> gateway_pb2.Final | None:
        """The outcome of a request; None while there is none yet. Raises NotFound."""
        running = self._requests.find((tenant.tenant_id, request_id.lower()))
        if running is not None and running.done:
            return await running.final()
        if running is not None:
            return None
        return (await self._entry(tenant.tenant_id, request_id.lower())).final

    async def cancel(self, tenant: Tenant, request_id: str) -> common_pb2.Outcome.ValueType:
        """End a request now; gives the outcome it has then. Raises NotFound."""
        request_id = request_id.lower()
        key = (tenant.tenant_id, request_id)
        if (running := self._requests.running(key)) is not None:
            running.cancel()
            return (await running.final()).outcome
        entry = await self._entry(tenant.tenant_id, request_id)
        if entry.state == "deferred":
            final = gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_CANCELLED)
            final.error.CopyFrom(to_detail(Cancelled("CANCELLED", "the request was cancelled before it ran")))
            await self._runner.ledger.finish(tenant.tenant_id, final)
            await self._runner.deferral.confirm(tenant.tenant_id, request_id)
        elif entry.state == "running":
            await self._runner.ledger.call(self._ledger.ask_cancel(tenant.tenant_id, request_id))
        return await self._outcome_within(tenant.tenant_id, request_id, CANCEL_WITHIN_S)

    def list_models(self) -> list[ModelInfo]:
        """Served models, the default one first."""
        names = sorted(self._mesh.serve, key=lambda name: (name != self._mesh.default_model, name))
        return [self._model_info(name) for name in names]

    async def readiness(self) -> dict[str, str]:
        """Part → why it is not ready; empty when requests can be served."""
        problems = {"gateway": "draining"} if self._draining else {}
        for model in self._mesh.serve:
            if self._runner.peers.engines.describe(model) is None:
                problems[f"engine {model}"] = "no engine is up"
        return problems

    # --- takeovers

    async def resume(self, claim: Claim) -> RunningRequest:
        """Work on a request that this gateway has just claimed, after the events that its caller may have."""
        job = resume_job(claim.tenant_id, claim.request, self._mesh, self._config)
        try:
            delivered = await self._runner.ledger.call(self._events.delivered(claim.tenant_id, claim.request_id))
        except Unavailable:
            delivered = Delivered()
        remaining_s = claim.deadline_unix_s - time.time()
        if claim.was_deferred:
            remaining_s = min(remaining_s, self._config.deferred_timeout_s)
        running = self._requests.register(job, first_seq=delivered.next_seq)
        self._queue(job).enter()  # beyond its bound if need be: it was accepted before
        self._start(job, running, Deadline.after(remaining_s), time.monotonic(), delivered, keep_events=True)
        return running

    def working_on(self) -> list[tuple[str, str]]:
        """`(tenant, request)` of all requests in work here."""
        return self._requests.keys()

    def cancel_locally(self, tenant_id: str, request_id: str) -> None:
        if (running := self._requests.running((tenant_id, request_id))) is not None:
            running.cancel()

    async def drain(self, grace_s: float) -> None:
        """Finish what runs, within the grace; what is left goes to other gateways."""
        self._draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        left = self.working_on()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._requests.close()
        for tenant_id, request_id in left:
            try:
                await self._runner.ledger.call(self._ledger.release(tenant_id, request_id))
            except Unavailable:
                log.warning("lease not released", request_id=request_id)

    # --- inside

    def _queue(self, job: Job) -> RouteQueue:
        return self._runner.queues[job.route_name]

    def _is_over(self, job: Job) -> bool:
        return not self._queue(job).can_enter() or self._runner.peers.engines.is_over(
            job.model, self._config.engine_queue_limit
        )

    async def _attach_or_refuse(self, job: Job) -> RunningRequest:
        """Over capacity and not to be deferred: only a request that was accepted before can still be answered."""
        if job.explicit_id:
            entry = await self._runner.ledger.call(self._ledger.lookup(job.tenant_id, job.request_id))
            if entry is not None and entry.payload_hash != job.payload_hash:
                raise _reused(job)
            if entry is not None:
                return self._requests.follow(job.tenant_id, job.request_id)
        raise Exhausted(
            "QUEUE_FULL",
            f"too many {job.route_name} requests wait already; retry, or allow deferral",
            retry_after_ms=QUEUE_RETRY_MS,
        )

    async def _begin(
        self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float, *, over: bool
    ) -> tuple[RunningRequest, bool]:
        """The request to follow, and whether this gateway has started to work on it."""
        durable = job.explicit_id or job.request.resumable or over
        try:
            begun, final = await self._runner.ledger.call(
                self._ledger.begin(job.tenant_id, job.request, job.payload_hash, time.time() + deadline.remaining_s())
            )
        except Unavailable as error:
            if durable:
                raise Unavailable(
                    "LEDGER_UNAVAILABLE",
                    "the ledger is away: requests with an ID of their own, resumable and deferred ones wait for it",
                    retry_after_ms=1_000,
                ) from error
            return self._start(job, running, deadline, accepted_s, Delivered(), in_ledger=False), True
        if begun is Begun.MISMATCH:
            raise _reused(job)
        if begun is Begun.NEW and over:
            return await self._defer_now(job, running, deadline, accepted_s), False
        if begun is Begun.NEW:
            keep_events = job.request.resumable
            return self._start(job, running, deadline, accepted_s, Delivered(), keep_events=keep_events), True
        self._requests.forget((job.tenant_id, job.request_id))
        if final is not None:
            running.publish(final=final)
        else:
            self._requests.follow_into(running)
        return running, False

    async def _defer_now(
        self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float
    ) -> RunningRequest:
        work = self._new_work(job, running, deadline, accepted_s, Delivered())
        if not await self._runner.deferral.defer(work):
            error = Exhausted("QUEUE_FULL", "too many requests wait, also deferred ones", retry_after_ms=5_000)
            await self._runner.ledger.finish(job.tenant_id, _rejected(job.request_id, error))
            raise error
        self._requests.forget((job.tenant_id, job.request_id))
        self._requests.follow_into(running)
        return running

    def _new_work(
        self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float, delivered: Delivered
    ) -> Work:
        return Work(
            job=job,
            running=running,
            log_stages=StageLog(self._identity),
            deadline=deadline,
            accepted_s=accepted_s,
            outputs=new_outputs(job, delivered),
        )

    def _start(
        self,
        job: Job,
        running: RunningRequest,
        deadline: Deadline,
        accepted_s: float,
        delivered: Delivered,
        *,
        in_ledger: bool = True,
        keep_events: bool = False,
    ) -> RunningRequest:
        work = self._new_work(job, running, deadline, accepted_s, delivered)
        work.log_stages.publish = lambda report: running.publish(stage=report)
        if not in_ledger:
            work.log_stages.ledger_away()
        if keep_events:
            running.keep = True
            running.on_event(lambda event: self._events.append(job.tenant_id, job.request_id, event))
        running.publish(queued=gateway_pb2.Queued(request_id=job.request_id))
        task = asyncio.create_task(self._work(work, in_ledger=in_ledger), name=f"request {job.request_id}")
        running.attach_task(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return running

    async def _work(self, work: Work, *, in_ledger: bool) -> None:
        key = (work.job.tenant_id, work.job.request_id)
        try:
            await self._runner.work(work, in_ledger=in_ledger)
        finally:
            self._queue(work.job).leave()
            self._requests.forget(key)
            if work.running.done:
                self._requests.remember(work.running)
            else:  # deferred, or handed over: readers follow it wherever it goes on
                self._requests.follow_into(work.running)

    async def _earlier(self, running: RunningRequest, after_seq: int) -> list[gateway_pb2.Event]:
        """Stored events of runs before this one."""
        earlier: list[gateway_pb2.Event] = []
        while after_seq + 1 < running.first_seq:
            stored = await self._runner.ledger.call(self._events.read(running.tenant_id, running.request_id, after_seq))
            fresh = [event for event in stored if event.seq < running.first_seq]
            if not fresh:
                break
            earlier.extend(fresh)
            after_seq = fresh[-1].seq
        return earlier

    async def _entry(self, tenant_id: str, request_id: str) -> Entry:
        entry = await self._runner.ledger.call(self._ledger.lookup(tenant_id, request_id))
        if entry is None:
            raise NotFound("REQUEST_NOT_FOUND", f"there is no request {request_id[:80]!r}", field="request_id")
        return entry

    async def _outcome_within(self, tenant_id: str, request_id: str, seconds: float) -> common_pb2.Outcome.ValueType:
        running = self._requests.follow(tenant_id, request_id)
        try:
            async with asyncio.timeout(seconds):
                return (await running.final()).outcome
        except TimeoutError:
            return common_pb2.OUTCOME_UNSPECIFIED
        finally:
            running.cancel()

    def _model_info(self, name: str) -> ModelInfo:
        description = self._runner.peers.engines.describe(name)
        return ModelInfo(
            name=name,
            aliases=tuple(sorted(alias for alias, target in self._mesh.aliases.items() if target == name)),
            created=self._started_s,
            context_length=description.context_length if description is not None else 0,
        )


def _reused(job: Job) -> AlreadyExists:
    return AlreadyExists(
        "REQUEST_ID_REUSED",
        f"the request ID {job.request_id} was used for another request; take a new one",
        field="request_id",
    )


def _rejected(request_id: str, error: StagemeshError) -> gateway_pb2.Final:
    return gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_REJECTED, error=to_detail(error))


def error_of(final: gateway_pb2.Final) -> StagemeshError:
    """Why a request has no answer."""
    return from_detail(final.error)
