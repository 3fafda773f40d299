"""Workloads as callers send them: to an engine over its `Run` call, and to a gateway."""

from __future__ import annotations

import asyncio
import time
import uuid

import grpc

from services.engine.measure import Workload, prompt_tokens
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.cli.bench.streams import Stream
from stagemesh.cli.client.connection import Connection, Stub
from stagemesh.cli.exits import CommandError

TIMEOUT_S = 600.0
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state")
"""Each a token of its own with the space before it, in the vocabularies that are common."""


async def through_engine(stub: engine_pb2_grpc.EngineServiceStub, workload: Workload) -> list[Stream]:
    """All requests over one call, as a gateway sends them. Raises CommandError when a sequence fails."""
    call = stub.Run(timeout=TIMEOUT_S)
    prefix = uuid.uuid4().hex
    streams: dict[str, Stream] = {}
    for number in range(workload.num_sequences):
        name = f"{prefix}/{number}"
        streams[name] = Stream(time.perf_counter(), num_prompt=workload.num_prompt)
        await call.write(engine_pb2.RunRequest(submit=_submit(name, number, workload)))
    num_running = len(streams)
    while num_running:
        response = await call.read()
        if not isinstance(response, engine_pb2.RunResponse):
            raise CommandError("the engine ended its call early")
        now_s = time.perf_counter()
        for delta in response.deltas:
            streams[delta.sequence_id].token_times_s += [now_s] * len(delta.token_ids)
            if delta.HasField("finish"):
                num_running -= 1
                if delta.finish.HasField("error"):
                    raise CommandError(f"the engine failed: {delta.finish.error.message}")
    await call.done_writing()
    return list(streams.values())


async def through_gateway(stub: Stub, connection: Connection, workload: Workload, model: str = "") -> list[Stream]:
    """Each request a call of its own. Raises CommandError when one gets no complete answer."""
    run = uuid.uuid4().hex
    return list(
        await asyncio.gather(
            *(
                _ask(stub, connection, _request(f"{run[:8]} {number}", workload, model))
                for number in range(workload.num_sequences)
            )
        )
    )


async def _ask(stub: Stub, connection: Connection, request: gateway_pb2.InferenceRequest) -> Stream:
    stream = Stream(time.perf_counter())
    call = stub.Generate(gateway_pb2.GenerateRequest(request=request), timeout=TIMEOUT_S, metadata=connection.metadata)
    try:
        async for response in call:
            event = response.event
            if event.HasField("delta"):
                stream.token_times_s += [time.perf_counter()] * len(event.delta.token_ids)
            elif event.HasField("final"):
                stream.num_prompt = event.final.usage.prompt_tokens
                if event.final.usage.completion_tokens != len(stream.token_times_s) or not stream.token_times_s:
                    raise CommandError(f"an answer is not complete: {event.final.error.message}")
    except grpc.aio.AioRpcError as error:
        raise connection.explain(error) from None
    return stream


def _submit(name: str, number: int, workload: Workload) -> engine_pb2.Submit:
    return engine_pb2.Submit(
        sequence_id=name,
        tenant_id="bench",
        token_ids=prompt_tokens(number, workload.num_prompt, workload.vocab_size),
        sampling=common_pb2.SamplingParams(temperature=0.0, max_tokens=workload.num_output, ignore_eos=True),
    )


def _request(mark: str, workload: Workload, model: str) -> gateway_pb2.InferenceRequest:
    """A prompt that no cache knows, of about `num_prompt` tokens: the exact number is in the answer's account."""
    words = " ".join(WORDS[at * 7 % len(WORDS)] for at in range(max(1, workload.num_prompt - 12)))
    return gateway_pb2.InferenceRequest(
        model=model,
        prompt=f"{mark} {words}",
        sampling=common_pb2.SamplingParams(temperature=0.0, max_tokens=workload.num_output, ignore_eos=True),
    )
