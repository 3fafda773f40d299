"""The candidate engine: gives its answer to a prompt, or says whether to wait for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.runtime.channel import call_metadata, dial
from stagemesh.runtime.errors import Internal, from_detail, from_rpc
from stagemesh.runtime.kafka_consumer import TryLater

DESCRIBE_TIMEOUT_S = 5.0
AWAY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
    }
)
"""Codes that say nothing about the request: the engine is away, busy or going."""


@dataclass(frozen=True, kw_only=True)
class CandidateAnswer:
    token_ids: tuple[int, ...]
    finish_reason: common_pb2.FinishReason.ValueType
    stop: str
    """The stop string that ended it; empty if none did."""
    total_us: int


class CandidateEngine:
    """Raises TryLater while the engine cannot take work; any other error is about the request."""

    def __init__(self, addresses: Sequence[str], timeout_s: float) -> None:
        self._channel = dial(addresses)
        self._stub = engine_pb2_grpc.EngineServiceStub(self._channel)
        self._timeout_s = timeout_s

    async def describe(self) -> common_pb2.ModelIdentity:
        """Which model the engine runs now."""
        try:
            reply = await self._stub.Describe(
                engine_pb2.DescribeRequest(), timeout=DESCRIBE_TIMEOUT_S, metadata=call_metadata()
            )
        except grpc.RpcError as error:
            raise _later(error) from error
        return reply.model

    async def generate(self, submit: engine_pb2.Submit) -> CandidateAnswer:
        """The whole answer. An engine that breaks in the middle may have broken because of it, so that counts."""
        began_s, token_ids = time.monotonic(), list[int]()
        call = self._stub.Generate(
            engine_pb2.GenerateRequest(submit=submit), timeout=self._timeout_s, metadata=call_metadata()
        )
        finish: engine_pb2.Finish | None = None
        try:
            async for response in call:
                del token_ids[response.delta.first_index :]
                token_ids += response.delta.token_ids
                if response.delta.HasField("finish"):
                    finish = response.delta.finish
        except grpc.RpcError as error:
            if error.code() not in AWAY:
                raise from_rpc(error) from error
            if not token_ids:
                raise _later(error) from error
            raise Internal(
                "CANDIDATE_BROKE_OFF", "the candidate engine broke off in the middle of its answer"
            ) from error
        if finish is None:
            raise Internal("CANDIDATE_INCOMPLETE", "the candidate engine ended its stream without a finish")
        if finish.reason == common_pb2.FINISH_REASON_ERROR:
            raise from_detail(finish.error)
        return CandidateAnswer(
            token_ids=tuple(token_ids),
            finish_reason=finish.reason,
            stop=finish.stop,
            total_us=int((time.monotonic() - began_s) * 1e6),
        )

    async def close(self) -> None:
        await self._channel.close()


def _later(error: grpc.RpcError) -> TryLater:
    known = from_rpc(error)
    return TryLater(known.reason, known.retry_after_ms / 1000)
