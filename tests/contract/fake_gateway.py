"""A gateway for tests of the command: a real server that answers what a test put into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.interceptors import CallInterceptor, Context

Script = Sequence[gateway_pb2.Event | StagemeshError]


@dataclass
class FakeGateway(gateway_pb2_grpc.GatewayServiceServicer):
    script: Script = ()
    hang_after_script: bool = False
    cancel_outcome: common_pb2.Outcome.ValueType = common_pb2.OUTCOME_CANCELLED
    requests: list[gateway_pb2.InferenceRequest] = field(default_factory=list)
    watched: list[gateway_pb2.WatchRequest] = field(default_factory=list)
    metadata: dict[str, str | bytes] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    address: str = ""

    async def Generate(
        self, request: gateway_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.GenerateResponse]:
        self.requests.append(request.request)
        self.metadata = dict(context.invocation_metadata() or ())
        async for event in self._events():
            yield gateway_pb2.GenerateResponse(event=event)

    async def Watch(
        self, request: gateway_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchResponse]:
        self.watched.append(request)
        async for event in self._events():
            yield gateway_pb2.WatchResponse(event=event)

    async def Cancel(self, request: gateway_pb2.CancelRequest, context: Context) -> gateway_pb2.CancelResponse:
        return gateway_pb2.CancelResponse(outcome=self.cancel_outcome)

    async def Complete(self, request: gateway_pb2.CompleteRequest, context: Context) -> gateway_pb2.CompleteResponse:
        raise NotImplementedError

    async def _events(self) -> AsyncIterator[gateway_pb2.Event]:
        for item in self.script:
            if isinstance(item, StagemeshError):
                raise item
            yield item
        if self.hang_after_script:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()


@contextmanager
def serving(gateway: FakeGateway) -> Iterator[FakeGateway]:
    """Run it on a port of its own, in a thread of its own: the command brings its own event loop."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    stopped = asyncio.Event()

    async def serve() -> None:
        server = grpc.aio.server(interceptors=[CallInterceptor("")])
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(gateway, server)
        gateway.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        started.set()
        await stopped.wait()
        await server.stop(grace=None)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(10)
        yield gateway
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        loop.close()


def delta(text: str, seq: int = 1) -> gateway_pb2.Event:
    return gateway_pb2.Event(seq=seq, delta=gateway_pb2.Delta(text=text))


def deferred(request_id: str) -> gateway_pb2.Event:
    return gateway_pb2.Event(seq=1, queued=gateway_pb2.Queued(request_id=request_id, deferred=True))


def final(
    text: str = "Paris.",
    *,
    outcome: common_pb2.Outcome.ValueType = common_pb2.OUTCOME_COMPLETE,
    finish_reason: common_pb2.FinishReason.ValueType = common_pb2.FINISH_REASON_STOP,
    validation: gateway_pb2.Validation | None = None,
    error: common_pb2.ErrorDetail | None = None,
) -> gateway_pb2.Event:
    """An end with all twelve stages; the last two are skipped."""
    stages = [
        common_pb2.StageReport(
            stage=number,
            status=common_pb2.STAGE_STATUS_SKIPPED if number > 10 else common_pb2.STAGE_STATUS_OK,
            attempts=0 if number > 10 else 1,
            duration_us=0 if number > 10 else 1500,
            instance="engine-1",
        )
        for number in common_pb2.Stage.values()
        if number
    ]
    return gateway_pb2.Event(
        seq=9,
        final=gateway_pb2.Final(
            request_id="01900000-0000-7000-8000-000000000001",
            outcome=outcome,
            choices=[gateway_pb2.Choice(text=text, finish_reason=finish_reason, validation=validation)],
            usage=common_pb2.Usage(prompt_tokens=30, completion_tokens=4, cached_tokens=16),
            stages=stages,
            model=common_pb2.ModelIdentity(model="smollm2-135m-instruct"),
            ttft_us=250_000,
            total_us=400_500,
            error=error,
        ),
    )
