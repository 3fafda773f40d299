"""The gateway behind its two fronts (gRPC and HTTP): submit, watch, look up, cancel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from services.gateway import metrics
from services.gateway.acceptance import Acceptance
from services.gateway.adapters import AdapterPermits, unknown_model
from services.gateway.config import GatewayConfig
from services.gateway.event_store import EventStore
from services.gateway.follow import Follower
from services.gateway.hints import Hints
from services.gateway.job import Job, make_job, resume_job
from services.gateway.ledger import Claim, Entry, Ledger
from services.gateway.rates.rate import RateState
from services.gateway.request_erasure import RequestErasure
from services.gateway.requests import Requests
from services.gateway.runner import Runner
from services.gateway.running import RunningRequest
from services.gateway.tenants import Tenant, Tenants
from services.gateway.work import Delivered, Work
from services.gateway.workbench import Workbench
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import (
    Cancelled,
    NotFound,
    StagemeshError,
    Unavailable,
    from_detail,
    to_detail,
)
from stagemesh.runtime.identity import Identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.telemetry import get_logger

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


@dataclass(frozen=True)
class AdapterInfo:
    name: str
    base: ModelInfo


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
        permits: AdapterPermits,
        erasure: RequestErasure,
    ) -> None:
        self._mesh = mesh
        self._config = config
        self._tenants = tenants
        self._runner = runner
        self._events = events
        self._requests = Requests(Follower(runner.ledger, events), max_ended=config.max_stored_requests)
        self._workbench = Workbench(identity, runner, self._requests, events)
        self._permits = permits
        self._erasure = erasure
        self._acceptance = Acceptance(mesh, config, runner, self._requests, self._workbench, permits)
        self._hints = Hints(runner.peers, config, self._hinted_work)
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
            if self._draining:
                raise Unavailable("DRAINING", "this gateway is about to stop; call again", retry_after_ms=500)
            self._hints.supersede(tenant.tenant_id, request)
            return await self._acceptance.accept(tenant, request, deadline)
        except StagemeshError as error:
            metrics.REFUSED.labels(error.reason).inc()
            raise

    async def hint(self, tenant: Tenant, request: gateway_pb2.InferenceRequest) -> bool:
        """Compute a prompt ahead of its request; whether that was begun. Raises what `submit` would for the request."""
        job = make_job(tenant.tenant_id, request, self._mesh, self._config)
        if job.adapter and not await self._permits.allows(tenant.tenant_id, job.adapter):
            raise unknown_model(request.model)
        self._runner.modes.choose_by_rule(job)
        return not self._draining and self._hints.offer(job)

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
            await self._runner.ledger.call(self._ledger.finish(tenant.tenant_id, final, owned=False))
            await self._runner.deferral.confirm(tenant.tenant_id, request_id)
        elif entry.state == "running":
            await self._runner.ledger.call(self._ledger.ask_cancel(tenant.tenant_id, request_id))
        return await self._outcome_within(tenant.tenant_id, request_id, CANCEL_WITHIN_S)

    def rate_state(self, tenant: Tenant) -> RateState:
        """What the tenant may still send."""
        return self._runner.guards.rate_state(tenant.tenant_id)

    async def forget_requests(self, tenant_id: str, *, user_id: str = "", session_id: str = "") -> None:
        """A user or a session is erased: what the ledger and this gateway keep of its requests goes as well.

        Raises Unavailable.
        """
        for request_id in await self._erasure.erase(tenant_id, user_id=user_id, session_id=session_id):
            self._requests.forget_ended((tenant_id, request_id))

    def list_models(self) -> list[ModelInfo]:
        """Served models, the default one first."""
        names = sorted(self._mesh.serve, key=lambda name: (name != self._mesh.default_model, name))
        return [self._model_info(name) for name in names]

    async def list_adapters(self, tenant: Tenant) -> list[AdapterInfo]:
        """The adapters that this tenant may use and that an engine holds. Raises Unavailable."""
        found = {
            (model, adapter.name): None
            for model in sorted(self._mesh.serve)
            for adapter in self._runner.peers.engines.adapters(model)
        }
        return [
            AdapterInfo(name, self._model_info(model))
            for model, name in sorted(found)
            if await self._permits.allows(tenant.tenant_id, name)
        ]

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
        job = resume_job(claim.tenant_id, claim.request, claim.payload_hash, self._mesh, self._config)
        try:
            delivered = await self._runner.ledger.call(self._events.delivered(claim.tenant_id, claim.request_id))
        except Unavailable:
            delivered = Delivered()
        remaining_s = claim.deadline_unix_s - time.time()
        if claim.was_deferred:
            remaining_s = min(remaining_s, self._config.deferred_timeout_s)
        running = self._requests.register(job, first_seq=delivered.next_seq)
        self._runner.queues[job.route_name].enter(job.tenant_id)  # beyond its bound if need be: it was accepted before
        work = self._workbench.start(
            job, running, Deadline.after(remaining_s), time.monotonic(), delivered, keep_events=True
        )
        work.was_deferred = claim.was_deferred
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
        await self._acceptance.drain()
        await self._hints.close()
        await self._workbench.drain(grace_s)
        await self._requests.close()
        for tenant_id, request_id in self._workbench.left:
            try:
                await self._runner.ledger.call(self._ledger.release(tenant_id, request_id))
            except Unavailable:
                log.warning("lease not released", request_id=request_id)

    # --- inside

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

    def _hinted_work(self, job: Job) -> Work:
        running = RunningRequest(job.tenant_id, job.request_id)
        deadline = Deadline.after(self._config.hint_timeout_s)
        return self._workbench.new_work(job, running, deadline, time.monotonic(), Delivered())

    def _model_info(self, name: str) -> ModelInfo:
        description = self._runner.peers.engines.describe(name)
        return ModelInfo(
            name=name,
            aliases=tuple(sorted(alias for alias, target in self._mesh.aliases.items() if target == name)),
            created=self._started_s,
            context_length=description.context_length if description is not None else 0,
        )


def error_of(final: gateway_pb2.Final) -> StagemeshError:
    """Why a request has no answer."""
    return from_detail(final.error)
