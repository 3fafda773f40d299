"""One request from start to end: its events are handed on, its end is returned whatever it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import grpc

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.cli.client import answer
from stagemesh.cli.client.connection import Connection, Stub
from stagemesh.cli.exits import CommandError, Exit

OUTCOME_BY_EXIT = {
    Exit.REJECTED: common_pb2.OUTCOME_REJECTED,
    Exit.CANCELLED: common_pb2.OUTCOME_CANCELLED,
    Exit.EXPIRED: common_pb2.OUTCOME_EXPIRED,
}

OnEvent = Callable[[gateway_pb2.Event], None]


async def generate(
    connection: Connection, request: gateway_pb2.InferenceRequest, on_event: OnEvent, *, wait_deferred: bool = False
) -> gateway_pb2.Final:
    """Send the request and follow it to its end, or to its deferral unless `wait_deferred`.

    A refusal is an end too: REJECTED with its error. Raises CommandError when no gateway answers or the stream
    breaks off without an end.
    """
    async with connection.open() as stub:
        call = stub.Generate(
            gateway_pb2.GenerateRequest(request=request), timeout=connection.timeout_s, metadata=connection.metadata
        )
        events = (response.event async for response in call)
        return await _follow(connection, request.request_id, events, on_event, wait_deferred)


async def watch(connection: Connection, request_id: str, after_seq: int, on_event: OnEvent) -> gateway_pb2.Final:
    """Follow a request that runs, is deferred or has ended. Raises CommandError as `generate` does."""
    async with connection.open() as stub:
        call = stub.Watch(
            gateway_pb2.WatchRequest(request_id=request_id, after_seq=after_seq),
            timeout=connection.timeout_s,
            metadata=connection.metadata,
        )
        events = (response.event async for response in call)
        return await _follow(connection, request_id, events, on_event, wait_deferred=True)


async def cancel(connection: Connection, request_id: str) -> common_pb2.Outcome.ValueType:
    """Cancel a request; gives its outcome, which is another one when it had ended before. Raises CommandError."""
    async with connection.open() as stub:
        try:
            return await _cancel(stub, connection, request_id)
        except grpc.aio.AioRpcError as error:
            raise connection.explain(error) from None


async def _cancel(stub: Stub, connection: Connection, request_id: str) -> common_pb2.Outcome.ValueType:
    response = await stub.Cancel(
        gateway_pb2.CancelRequest(request_id=request_id), timeout=connection.timeout_s, metadata=connection.metadata
    )
    return response.outcome


async def _follow(
    connection: Connection,
    request_id: str,
    events: AsyncIterator[gateway_pb2.Event],
    on_event: OnEvent,
    wait_deferred: bool,
) -> gateway_pb2.Final:
    try:
        async for event in events:
            if event.WhichOneof("kind") == "final":
                return event.final
            on_event(event)
            if event.WhichOneof("kind") == "queued":
                request_id = event.queued.request_id or request_id
                if event.queued.deferred and not wait_deferred:
                    return gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_DEFERRED)
    except grpc.aio.AioRpcError as failed:
        problem = connection.explain(failed)
        outcome = OUTCOME_BY_EXIT.get(Exit(problem.exit_code))
        if outcome is None:
            raise problem from None
        return answer.refused(request_id, connection.typed(failed), outcome)
    way_on = f"`stagemesh watch {request_id}` may find it" if request_id else "send the request again"
    raise CommandError(f"the gateway broke off without an end; {way_on}")
