"""Many streams at once: the same text as alone, and no slot kept by those who left."""

import asyncio
import uuid

import grpc
import pytest
from mesh_support import AUTH, Mesh, ask, complete

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc

TOPICS = ["tea", "rain", "maps", "bees", "steel", "glass", "rivers", "bread"]
PROMPTS = [f"Say one thing about {topic}, case {number}." for number in range(4) for topic in TOPICS]
NEAR_TIE = 1e-4
"""Below this difference of the two best log-probabilities, either token is right (float32, another order of sums)."""


def request(prompt: str) -> gateway_pb2.InferenceRequest:
    return ask(prompt, sampling={"max_tokens": 12, "logprobs": 2})


def first_difference(alone: gateway_pb2.Final, together: gateway_pb2.Final) -> int | None:
    pairs = zip(alone.choices[0].logprobs, together.choices[0].logprobs, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.token_id != b.token_id), None)


async def test_32_streams_at_once_say_what_each_says_alone(mesh: Mesh) -> None:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        together = await asyncio.gather(*(complete(stub, request(prompt)) for prompt in PROMPTS))
        for prompt, final in zip(PROMPTS, together, strict=True):
            alone = await complete(stub, request(prompt))
            assert final.outcome == alone.outcome == common_pb2.OUTCOME_COMPLETE, (final.error, alone.error)
            place = first_difference(alone, final)
            if place is None:
                assert final.choices[0].text == alone.choices[0].text
            else:
                best, second = alone.choices[0].logprobs[place].top[:2]
                assert best.logprob - second.logprob < NEAR_TIE, f"{prompt}: token {place}"


async def stream(stub: gateway_pb2_grpc.GatewayServiceStub, prompt: str, *, leave_after: int | None) -> int:
    """Deltas read from one stream; `leave_after` deltas the caller hangs up."""
    asked = gateway_pb2.GenerateRequest(request=ask(prompt, sampling={"max_tokens": 40, "ignore_eos": True}))
    call, deltas = stub.Generate(asked, metadata=AUTH, timeout=120), 0
    async for response in call:
        deltas += response.event.HasField("delta")
        if leave_after is not None and deltas >= leave_after:
            call.cancel()
            break
    return deltas


async def test_no_slot_leaks_after_half_of_the_streams_are_cancelled(mesh: Mesh) -> None:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        counts = await asyncio.gather(
            *(stream(stub, prompt, leave_after=2 if i % 2 else None) for i, prompt in enumerate(PROMPTS))
        )
    assert all(count >= 1 for count in counts)
    address = mesh.status()["engine-1"]["address"]
    token = (("x-mesh-token", mesh.secret()),)
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(15):
        loads = engine_pb2_grpc.EngineServiceStub(channel).WatchLoad(engine_pb2.WatchLoadRequest(), metadata=token)
        async for load in loads:
            if load.running == load.waiting == load.in_flight_tokens == 0:
                break


async def test_a_cancelled_request_ends_as_cancelled(mesh: Mesh) -> None:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        asked = ask("Count.", sampling={"max_tokens": 400, "ignore_eos": True}, resumable=True)
        call = stub.Generate(gateway_pb2.GenerateRequest(request=asked), metadata=AUTH, timeout=120)
        async for response in call:
            if response.event.HasField("queued"):
                request_id = response.event.queued.request_id
            if response.event.HasField("delta"):
                break
        cancelled = await stub.Cancel(gateway_pb2.CancelRequest(request_id=request_id), metadata=AUTH, timeout=20)
        assert cancelled.outcome == common_pb2.OUTCOME_CANCELLED
        watch = stub.Watch(gateway_pb2.WatchRequest(request_id=request_id), metadata=AUTH, timeout=20)
        events = [response.event async for response in watch]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[-1].final.outcome == common_pb2.OUTCOME_CANCELLED


async def test_a_repeat_with_the_same_id_gives_the_stored_outcome_and_another_payload_is_refused(mesh: Mesh) -> None:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        asked = ask("Say a word.", request_id=str(uuid.uuid4()), sampling={"temperature": 1, "max_tokens": 8})
        first, second = await asyncio.gather(complete(stub, asked), complete(stub, asked))
        third = await complete(stub, asked)
        assert first.choices[0].text == second.choices[0].text == third.choices[0].text
        assert first.total_us == third.total_us
        asked.sampling.max_tokens = 9
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await complete(stub, asked)
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
