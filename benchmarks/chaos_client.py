"""A caller who wants one answer for each request, whatever breaks: it comes back with the same ID until it knows."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import grpc

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.faults import HEADER

AUTH = (("authorization", "Bearer dev"),)
PAUSE_S = 0.3
UNDECIDED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
"""After these the caller cannot know what became of its request, and asks again."""
REFUSED = common_pb2.OUTCOME_REJECTED


@dataclass
class Seen:
    """All that the caller of one request was told."""

    request_id: str
    accepted: bool = False
    was_deferred: bool = False
    outcomes: list[int] = field(default_factory=list)
    """Of final events that were told, each time."""
    texts: set[str] = field(default_factory=set)
    """Of final events; more than one is an answer given twice, differently."""
    tokens: list[int] = field(default_factory=list)
    """Of the stream that brought the final event."""
    logprobs: list[float] = field(default_factory=list)
    gaps: int = 0
    """Deltas that did not begin where the last one ended."""
    delta_times_s: list[float] = field(default_factory=list)
    stages: list[common_pb2.StageReport] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def outcome(self) -> int:
        return self.outcomes[-1] if self.outcomes else 0

    @property
    def was_moved(self) -> bool:
        return any(report.attempts > 1 for report in self.stages if report.stage == common_pb2.STAGE_ATTEND)


class Caller:
    def __init__(self, address: str, deadline_s: float, patience_s: float) -> None:
        """`deadline_s`: of a request; `patience_s`: how long a deferred or undecided one is followed."""
        self._address = address
        self._deadline_s, self._patience_s = deadline_s, patience_s

    async def ask(self, request: gateway_pb2.InferenceRequest, faults: str = "") -> Seen:
        """Ask until the outcome is known. What was never accepted ends with the refusal."""
        seen, started_s = Seen(request.request_id), time.monotonic()
        give_up_s = started_s + self._deadline_s + self._patience_s
        while not seen.outcomes and time.monotonic() < give_up_s:
            async with grpc.aio.insecure_channel(self._address) as channel:
                stub = gateway_pb2_grpc.GatewayServiceStub(channel)
                try:
                    if seen.was_deferred or seen.accepted:
                        await self._watch(stub, seen)
                    else:
                        await self._stream(stub, request, faults, seen)
                except grpc.aio.AioRpcError as error:
                    seen.errors.append(f"{error.code().name}: {error.details()}")
                    if error.code() is grpc.StatusCode.NOT_FOUND:
                        seen.accepted = seen.was_deferred = False  # the ledger has lost it, or never had it: once more
                    elif error.code() not in UNDECIDED and not (seen.was_deferred or seen.accepted):
                        seen.outcomes.append(REFUSED)
                    faults = ""  # they have happened
            if not seen.outcomes:
                await asyncio.sleep(PAUSE_S)
        seen.seconds = time.monotonic() - started_s
        return seen

    async def outcome_again(self, request_id: str) -> gateway_pb2.Final | None:
        """What the ledger says of a request, asked afterwards; None where it knows none."""
        async with grpc.aio.insecure_channel(self._address) as channel:
            stub = gateway_pb2_grpc.GatewayServiceStub(channel)
            watch = stub.Watch(gateway_pb2.WatchRequest(request_id=request_id), metadata=AUTH, timeout=30)
            final = None
            try:
                async for response in watch:
                    if response.event.HasField("final"):
                        final = response.event.final
            except grpc.aio.AioRpcError:
                return None
            return final

    async def _stream(
        self, stub: gateway_pb2_grpc.GatewayServiceStub, request: gateway_pb2.InferenceRequest, faults: str, seen: Seen
    ) -> None:
        metadata = (*AUTH, *(((HEADER, faults),) if faults else ()))
        call = stub.Generate(gateway_pb2.GenerateRequest(request=request), metadata=metadata, timeout=self._deadline_s)
        seen.tokens, seen.logprobs, seen.delta_times_s = [], [], []
        async for response in call:
            seen.accepted = True
            self._take(response.event, seen)

    async def _watch(self, stub: gateway_pb2_grpc.GatewayServiceStub, seen: Seen) -> None:
        watch = stub.Watch(
            gateway_pb2.WatchRequest(request_id=seen.request_id), metadata=AUTH, timeout=self._patience_s
        )
        seen.tokens, seen.logprobs, seen.delta_times_s = [], [], []
        async for response in watch:
            self._take(response.event, seen)

    def _take(self, event: gateway_pb2.Event, seen: Seen) -> None:
        if event.HasField("delta") and event.delta.token_ids:
            seen.gaps += event.delta.first_index != len(seen.tokens)
            seen.tokens += event.delta.token_ids
            seen.logprobs += [entry.logprob for entry in event.delta.logprobs]
            seen.delta_times_s.append(time.monotonic())
        if event.HasField("queued") and event.queued.deferred:
            seen.was_deferred = True
        if event.HasField("final"):
            final = event.final
            seen.outcomes.append(final.outcome)
            seen.texts.update(choice.text for choice in final.choices)
            seen.stages = list(final.stages)
            if final.error.reason:
                seen.errors.append(final.error.reason)
