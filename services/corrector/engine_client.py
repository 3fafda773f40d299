"""Answers of an engine, and its judgement of given ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.runtime.channel import call_metadata, dial
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import StagemeshError, Unavailable, from_detail, from_rpc

T = TypeVar("T")

ELSEWHERE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.FAILED_PRECONDITION,  # this engine serves another model
        grpc.StatusCode.NOT_FOUND,  # or does not hold the adapter
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
    }
)
"""After these another engine may do better; after the others it would say the same."""


@dataclass
class Generated:
    token_ids: list[int] = field(default_factory=list)
    reason: common_pb2.FinishReason.ValueType = common_pb2.FINISH_REASON_UNSPECIFIED
    usage: common_pb2.Usage = field(default_factory=common_pb2.Usage)


class EngineClient:
    """Tries the engines in turn, beginning with the one that answered last."""

    def __init__(self, addresses: Sequence[str], max_message_bytes: int) -> None:
        self._channels = [dial([address], max_message_bytes=max_message_bytes) for address in addresses]

    async def generate(self, submit: engine_pb2.Submit, deadline: Deadline) -> Generated:
        """The whole answer. Raises the typed error of the last engine tried, or DeadlineExceeded."""
        return await self._first(lambda channel: _collect(channel, submit, deadline))

    async def score(self, request: engine_pb2.ScoreRequest, deadline: Deadline) -> engine_pb2.ScoreResponse:
        """How likely given continuations of a prompt are, one score for each. Raises as `generate` does."""
        return await self._first(lambda channel: _score(channel, request, deadline))

    async def _first(self, ask: Callable[[grpc.aio.Channel], Awaitable[T]]) -> T:
        """What the first engine says that can. Raises the typed error of the last one tried."""
        last: StagemeshError = Unavailable("ENGINE_UNAVAILABLE", "no engine is configured")
        for channel in list(self._channels):
            try:
                answer = await ask(channel)
            except grpc.RpcError as error:
                last = from_rpc(error)
            except StagemeshError as error:
                last = error
            else:
                self._channels.sort(key=lambda other: other is not channel)
                return answer
            if last.code not in ELSEWHERE:
                break
        raise last

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


async def _score(
    channel: grpc.aio.Channel, request: engine_pb2.ScoreRequest, deadline: Deadline
) -> engine_pb2.ScoreResponse:
    stub = engine_pb2_grpc.EngineServiceStub(channel)
    return await stub.Score(request, timeout=deadline.budget_s(), metadata=call_metadata())


async def _collect(channel: grpc.aio.Channel, submit: engine_pb2.Submit, deadline: Deadline) -> Generated:
    stub = engine_pb2_grpc.EngineServiceStub(channel)
    generated = Generated()
    call = stub.Generate(
        engine_pb2.GenerateRequest(submit=submit), timeout=deadline.budget_s(), metadata=call_metadata()
    )
    try:
        async for response in call:
            if _take(response.delta, generated):
                return generated
    finally:
        call.cancel()
    raise Unavailable("ENGINE_STREAM_TORN", "the engine's stream ended without a result")


def _take(delta: engine_pb2.SequenceDelta, generated: Generated) -> bool:
    """Add one delta; gives whether it is the last. Raises StagemeshError for a gap or the engine's own failure."""
    if delta.token_ids and delta.first_index != len(generated.token_ids):
        raise Unavailable("ENGINE_STREAM_TORN", "the engine's stream has a gap")
    generated.token_ids.extend(delta.token_ids)
    if not delta.HasField("finish"):
        return False
    if delta.finish.HasField("error"):
        raise from_detail(delta.finish.error)
    generated.reason, generated.usage = delta.finish.reason, delta.finish.usage
    return True
