"""Requests by ID: /v1/requests/{id}, where a deferred or finished answer is picked up."""

from __future__ import annotations

import asyncio

from services.gateway.http.core import Gateway
from services.gateway.http.envelope import Envelope, created_at
from services.gateway.http.extras import extras, outcome_name
from services.gateway.http.failures import failure_of
from services.gateway.http.outcome import ANSWERED, error_of
from services.gateway.http.shape import JsonObject, Shape
from services.gateway.http.shape_chat import ChatShape
from services.gateway.http.shape_completion import CompletionShape
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import InvalidRequest

MAX_WAIT_S = 30.0
FIRST_POLL_S = 0.02
MAX_POLL_S = 0.5
SHAPES: dict[str, type[ChatShape] | type[CompletionShape]] = {
    "chat.completion": ChatShape,
    "text_completion": CompletionShape,
}


def read_wait_s(text: str) -> float:
    """`?wait=` in seconds. Raises InvalidRequest."""
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= MAX_WAIT_S:  # also for NaN
        raise InvalidRequest("INVALID_VALUE", f"wait must be seconds from 0 to {MAX_WAIT_S:g}", field="wait")
    return wait_s


def read_shape(name: str, *, with_logprobs: bool) -> Shape:
    """`?object=`: the API in whose shape the answer is wanted. Raises InvalidRequest."""
    if name not in SHAPES:
        raise InvalidRequest("INVALID_VALUE", f"object must be one of {', '.join(SHAPES)}", field="object")
    return SHAPES[name](with_logprobs)


async def wait_for_final(gateway: Gateway, tenant: Tenant, request_id: str, wait_s: float) -> gateway_pb2.Final | None:
    """The outcome, when it is there within `wait_s`. Raises NotFound.

    The request may run in any gateway or lie in the queue, so the ledger is asked, at growing intervals.
    """
    end = Deadline.after(wait_s)
    poll_s = FIRST_POLL_S
    while True:
        final = await gateway.lookup(tenant, request_id)
        if final is not None or end.expired():
            return final
        await asyncio.sleep(min(poll_s, end.remaining_s()))
        poll_s = min(2 * poll_s, MAX_POLL_S)


def pending(request_id: str) -> JsonObject:
    return {"id": request_id, "object": "stagemesh.request", "status": "pending", "outcome": None}


def ended(final: gateway_pb2.Final, shape: Shape) -> JsonObject:
    """The answer as its API would have given it; without one, the outcome and the error."""
    status = {"status": "ended", "outcome": outcome_name(final.outcome)}
    if final.outcome in ANSWERED:
        envelope = Envelope(
            shape=shape,
            request_id=final.request_id,
            created=created_at(final.request_id),
            model=final.model.model,
        )
        return {**envelope.whole([final]), **status}
    return {
        "id": final.request_id,
        "object": "stagemesh.request",
        **status,
        **failure_of(error_of(final), {"stagemesh": extras([final])}).body,
    }


def cancelled(request_id: str, outcome: common_pb2.Outcome.ValueType) -> JsonObject:
    return {"id": request_id, "object": "stagemesh.request", "status": "ended", "outcome": outcome_name(outcome)}


def has_logprobs(final: gateway_pb2.Final | None) -> bool:
    return final is not None and any(choice.logprobs for choice in final.choices)
