"""One request from its HTTP head to the last byte of its reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from services.gateway.config import GatewayConfig
from services.gateway.fault_header import bind_faults
from services.gateway.http import rate_headers
from services.gateway.http.body import read_object
from services.gateway.http.boundary import Json
from services.gateway.http.caller import Caller, read_caller
from services.gateway.http.core import Gateway, RunningRequest
from services.gateway.http.disconnect import cancelled_on_disconnect
from services.gateway.http.envelope import Envelope, created_at
from services.gateway.http.extras import reply_headers
from services.gateway.http.feed import Feed
from services.gateway.http.gate import Gate
from services.gateway.http.models import served_name
from services.gateway.http.order import Order
from services.gateway.http.outcome import raise_unless_answered
from services.gateway.http.sse import EventStream
from services.gateway.http.streaming import HOLD_S, stream_reply
from services.gateway.tenants import Tenant
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime import context
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import DeadlineExceeded
from stagemesh.runtime.faults import HEADER as FAULT_KEY

LATE_S = 2.0
"""How much later than its deadline a request may end by itself, as EXPIRED, before it is given up here."""

ReadOrder = Callable[[dict[str, object], Caller], Order]


class Generation:
    """The ASGI application of one route that generates text; `read_order` parses its bodies."""

    def __init__(self, gateway: Gateway, config: GatewayConfig, gate: Gate, read_order: ReadOrder) -> None:
        self._gateway = gateway
        self._config = config
        self._gate = gate
        self._read_order = read_order

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hold = Deadline.after(HOLD_S)
        request = Request(scope, receive)
        caller = read_caller(request.headers, self._config.max_timeout_s)
        context.request_id.set(caller.request_id)
        context.traceparent.set(context.child_traceparent(caller.traceparent))
        bind_faults(
            request.headers.get(FAULT_KEY, ""), request.client.host if request.client else "", request.headers.keys()
        )
        tenant = await self._gateway.authenticate(caller.api_key, caller.tenant_header)
        context.tenant_id.set(tenant.tenant_id)
        rate_headers.note(scope, lambda: self._gateway.rate_state(tenant))
        with self._gate.entered():
            order = self._read_order(await read_object(request, self._config.max_request_bytes), caller)
            deadline = Deadline.after(caller.timeout_s or self._config.default_timeout_s)
            async with (
                accepted(self._gateway, tenant, order, deadline) as running,
                Feed(running) as feed,
                cancelled_on_disconnect(receive),
            ):
                envelope = self._envelope(order, running[0].request_id)
                late = Deadline(deadline.at_s + LATE_S)
                if order.stream:
                    await stream_reply(order, envelope, feed, EventStream(scope, send), hold=hold, late=late)
                else:
                    finals = await all_finals(feed, len(running), late)
                    await Json(envelope.whole(finals), headers=reply_headers(finals))(scope, receive, send)

    def _envelope(self, order: Order, request_id: str) -> Envelope:
        context.request_id.set(request_id)
        return Envelope(
            shape=order.shape,
            request_id=request_id,
            created=created_at(request_id),
            model=served_name(self._gateway.list_models(), order.requests[0].model),
        )


@asynccontextmanager
async def accepted(
    gateway: Gateway, tenant: Tenant, order: Order, deadline: Deadline
) -> AsyncIterator[list[RunningRequest]]:
    """Submit the order's requests; at the end of the block, those that still run are left to whoever may want them."""
    running: list[RunningRequest] = []
    try:
        for request in order.requests:
            running.append(await gateway.submit(tenant, request, deadline))  # noqa: PERF401  a failure leaves the earlier ones
        yield running
    finally:
        for attached in running:
            attached.abandon()


async def all_finals(feed: Feed, num_requests: int, late: Deadline) -> Sequence[gateway_pb2.Final]:
    """Wait for the answers, in the order of the requests. Raises the error that stands in place of one."""
    finals: dict[int, gateway_pb2.Final] = {}
    while len(finals) < num_requests:
        item = await feed.next(late.remaining_s())
        if item is None:
            raise DeadlineExceeded("DEADLINE_EXCEEDED", "the request's deadline has passed")
        index, event = item
        raise_unless_answered(event)
        if event.HasField("final"):
            finals[index] = event.final
    return [finals[index] for index in range(num_requests)]
