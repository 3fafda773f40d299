"""Proto ↔ gateway: metadata to tenant and deadline, events to messages, outcomes to statuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway, error_of
from services.gateway.deferred_runs import DeferredRuns
from services.gateway.fault_header import bind_faults, host_of
from services.gateway.metadata import deadline_of, has_mesh_token, metadata_of, tenant_of
from services.gateway.running import RunningRequest
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime import precision_mode
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Forbidden, InvalidRequest, Unavailable
from stagemesh.runtime.faults import HEADER as FAULT_KEY
from stagemesh.runtime.interceptors import Context

DEFERRED_RUN_KEY = "x-deferred-run"
"""Metadata of a worker's call: `1` to run a deferred request, `give-up` when its attempts are used up."""

NO_ANSWER = frozenset(
    {
        common_pb2.OUTCOME_REJECTED,
        common_pb2.OUTCOME_CANCELLED,
        common_pb2.OUTCOME_EXPIRED,
        common_pb2.OUTCOME_DEAD_LETTERED,
    }
)
"""Outcomes that end `Generate` and `Complete` with a status; `Watch` reports them as data."""


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    def __init__(self, gateway: Gateway, deferred: DeferredRuns, config: GatewayConfig, mesh_token: str) -> None:
        self._gateway = gateway
        self._deferred = deferred
        self._config = config
        self._mesh_token = mesh_token

    async def Generate(
        self, request: gateway_pb2.GenerateRequest, grpc_context: Context
    ) -> AsyncIterator[gateway_pb2.GenerateResponse]:
        tenant = await self._tenant(grpc_context)
        inference = _with_mode(request.request, grpc_context)
        running = await self._gateway.submit(tenant, inference, self._deadline(grpc_context))
        try:
            async with aclosing(running.events()) as events:
                async for event in events:
                    if event.HasField("final") and event.final.outcome in NO_ANSWER:
                        raise error_of(event.final)
                    yield gateway_pb2.GenerateResponse(event=event)
        finally:
            running.abandon()

    async def Complete(
        self, request: gateway_pb2.CompleteRequest, grpc_context: Context
    ) -> gateway_pb2.CompleteResponse:
        if (kind := metadata_of(grpc_context).get(DEFERRED_RUN_KEY)) is not None:
            return await self._deferred_run(kind, request.request.request_id, grpc_context)
        tenant = await self._tenant(grpc_context)
        inference = _with_mode(request.request, grpc_context)
        running = await self._gateway.submit(tenant, inference, self._deadline(grpc_context))
        try:
            final = await _final_or_deferred(running)
        finally:
            running.abandon()
        if final.outcome in NO_ANSWER:
            raise error_of(final)
        return gateway_pb2.CompleteResponse(final=final)

    async def Watch(
        self, request: gateway_pb2.WatchRequest, grpc_context: Context
    ) -> AsyncIterator[gateway_pb2.WatchResponse]:
        tenant = await self._tenant(grpc_context)
        watched = self._gateway.watch(tenant, _request_id(request.request_id), request.after_seq)
        async with aclosing(watched) as events:
            async for event in events:
                yield gateway_pb2.WatchResponse(event=event)

    async def Cancel(self, request: gateway_pb2.CancelRequest, grpc_context: Context) -> gateway_pb2.CancelResponse:
        tenant = await self._tenant(grpc_context)
        outcome = await self._gateway.cancel(tenant, _request_id(request.request_id))
        return gateway_pb2.CancelResponse(outcome=outcome)

    async def Hint(self, request: gateway_pb2.HintRequest, grpc_context: Context) -> gateway_pb2.HintResponse:
        tenant = await self._tenant(grpc_context)
        inference = _with_mode(request.request, grpc_context)
        return gateway_pb2.HintResponse(accepted=await self._gateway.hint(tenant, inference))

    async def _deferred_run(self, kind: str, request_id: str, grpc_context: Context) -> gateway_pb2.CompleteResponse:
        """A worker's call: it acts for the tenant in its metadata, by the mesh token."""
        metadata = metadata_of(grpc_context)
        if not has_mesh_token(metadata, self._mesh_token):
            raise Forbidden("MESH_TOKEN_REQUIRED", f"{DEFERRED_RUN_KEY} is for the mesh's own workers")
        tenant_id = metadata.get("x-tenant-id", "")
        if kind == "give-up":
            error = Unavailable("ATTEMPTS_USED_UP", "the request could not be served within its attempts")
            return gateway_pb2.CompleteResponse(final=await self._deferred.give_up(tenant_id, request_id, error))
        return gateway_pb2.CompleteResponse(final=await self._deferred.run(tenant_id, request_id))

    async def _tenant(self, grpc_context: Context) -> Tenant:
        metadata = metadata_of(grpc_context)
        bind_faults(metadata.get(FAULT_KEY, ""), host_of(grpc_context.peer()), metadata)
        return await tenant_of(self._gateway, grpc_context)

    def _deadline(self, grpc_context: Context) -> Deadline:
        return deadline_of(self._config, grpc_context)


async def _final_or_deferred(running: RunningRequest) -> gateway_pb2.Final:
    async with aclosing(running.events()) as events:
        async for event in events:
            if event.HasField("final"):
                return event.final
            if event.HasField("queued") and event.queued.deferred:
                return _deferred(running.request_id)
    raise Unavailable("HANDED_OVER", "this gateway stops; ask again with the same request ID", retry_after_ms=500)


def _deferred(request_id: str) -> gateway_pb2.Final:
    final = gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_DEFERRED)
    final.error.reason = "DEFERRED"
    final.error.message = "accepted for later: follow it with Watch"
    return final


def _with_mode(request: gateway_pb2.InferenceRequest, grpc_context: Context) -> gateway_pb2.InferenceRequest:
    """The request with the mode of its metadata, where it names none itself. Raises InvalidRequest."""
    mode = precision_mode.parse_mode(metadata_of(grpc_context).get(precision_mode.HEADER, ""))
    if mode and not request.policy.precision_mode:
        request.policy.precision_mode = mode
    return request


def _request_id(value: str) -> str:
    if not value or len(value) > 64:
        raise InvalidRequest("INVALID_REQUEST_ID", "give the request's ID", field="request_id")
    return value
