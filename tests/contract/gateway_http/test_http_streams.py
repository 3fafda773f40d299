"""Streams on the wire: first bytes, comments, disconnects, slow readers."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest
from http_support import WORDS, FakeGateway, answer, eventually, final_of, never, sse_data
from prometheus_client import REGISTRY

from services.gateway.http import sse, streaming
from services.gateway.running import RunningRequest
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
PLAIN = {"messages": [{"role": "user", "content": "hi"}]}
URL = "/v1/chat/completions"


async def test_frames_are_json_and_the_last_one_is_done(http: httpx.AsyncClient) -> None:
    async with http.stream("POST", URL, json=STREAM) as reply:
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reply.headers["cache-control"] == "no-cache"
        frames = await sse_data(reply.aiter_lines())
    assert frames[-1] == "[DONE]"
    chunks = [json.loads(frame) for frame in frames[:-1]]
    assert {chunk["id"] for chunk in chunks} == {f"chatcmpl-{reply.headers['x-request-id']}"}


async def test_a_waiting_caller_sees_where_it_stands(http: httpx.AsyncClient, gateway: FakeGateway) -> None:
    free = asyncio.Event()

    async def waiting(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        await free.wait()
        running.publish(queued=gateway_pb2.Queued(position=3, estimated_wait_ms=900))
        running.publish(final=final_of(request, running))

    gateway.script = waiting
    async with http.stream("POST", URL, json=STREAM) as reply:
        lines = reply.aiter_lines()
        assert await anext(lines) == ": queued"  # long before there is an answer
        free.set()
        assert [line async for line in lines if line.startswith(":")] == [": queued position=3 estimated_wait_ms=900"]


async def test_silence_is_bridged(
    http: httpx.AsyncClient, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "KEEP_ALIVE_S", 0.01)
    gateway.script = never
    async with http.stream("POST", URL, json=STREAM) as reply:
        async for line in reply.aiter_lines():
            if line == ": keep-alive":
                break


@pytest.mark.parametrize("body", [STREAM, PLAIN])
async def test_a_client_that_leaves_frees_the_slot(
    http: httpx.AsyncClient, gateway: FakeGateway, body: dict[str, object]
) -> None:
    gateway.script = never
    calling = asyncio.create_task(http.post(URL, json=body))
    await eventually(lambda: bool(gateway.submitted))
    running = next(iter(gateway.requests.values()))
    assert not running.done
    calling.cancel()
    await eventually(lambda: running.done)
    assert (await running.final()).outcome == common_pb2.OUTCOME_CANCELLED


async def test_many_streams_of_which_half_leave_end_all(http: httpx.AsyncClient, gateway: FakeGateway) -> None:
    async def half(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        script = never if request.prompt == "leaves" else answer
        await script(request, running)

    gateway.script = half
    calls = [
        asyncio.create_task(http.post("/v1/completions", json={"prompt": prompt, "stream": True}))
        for prompt in ("stays", "leaves") * 20
    ]
    await eventually(lambda: len(gateway.submitted) == 40)
    for call in calls[1::2]:
        call.cancel()
    assert {reply.text.count("[DONE]") for reply in await asyncio.gather(*calls[::2])} == {1}
    await eventually(lambda: all(running.done and not running.num_readers for running in gateway.requests.values()))
    await eventually(lambda: REGISTRY.get_sample_value("stagemesh_http_open_streams") == 0)


@pytest.mark.parametrize("key", ["resumable", "allow_deferral"])
async def test_a_request_that_can_be_picked_up_outlives_its_client(
    http: httpx.AsyncClient, gateway: FakeGateway, key: str
) -> None:
    free = asyncio.Event()

    async def waiting(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        await free.wait()
        running.publish(final=final_of(request, running))

    gateway.script = waiting
    calling = asyncio.create_task(http.post(URL, json={**STREAM, key: True}))
    await eventually(lambda: bool(gateway.submitted))
    request_id, running = next(iter(gateway.requests.items()))
    await eventually(lambda: running.num_readers == 1)
    calling.cancel()
    await eventually(lambda: running.num_readers == 0)
    free.set()
    reply = await http.get(f"/v1/requests/{request_id}", params={"wait": 5})
    assert reply.json()["choices"][0]["message"]["content"] == "".join(WORDS)


async def test_one_failing_prompt_stops_the_others(http: httpx.AsyncClient, gateway: FakeGateway) -> None:
    async def second_fails(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        if request.prompt == "b":
            final = final_of(request, running, outcome=common_pb2.OUTCOME_EXPIRED)
            running.publish(final=final)
        else:
            await never(request, running)

    gateway.script = second_fails
    reply = await http.post("/v1/completions", json={"prompt": ["a", "b", "c"]})
    assert reply.status_code == 504
    await eventually(lambda: all(running.done for running in gateway.requests.values()))


async def test_a_reader_that_reads_nothing_is_let_go(
    address: str, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.2)

    async def flood(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        for _ in range(2_000):
            running.publish(delta=gateway_pb2.Delta(text="x" * 10_000))
        await never(request, running)

    gateway.script = flood
    host, port = address.split(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1024)
    body = json.dumps(STREAM).encode()
    writer.write(
        f"POST {URL} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer dev\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await eventually(lambda: bool(gateway.requests))
    running = next(iter(gateway.requests.values()))
    await eventually(lambda: running.done)
    assert (await running.final()).outcome == common_pb2.OUTCOME_CANCELLED
    writer.close()


async def test_a_deadline_that_the_core_misses_is_kept_by_the_front(
    http: httpx.AsyncClient, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.http.generation.LATE_S", 0.05)
    gateway.script = never
    started_s = time.monotonic()
    reply = await http.post(URL, json=PLAIN, headers={"x-request-timeout-ms": "50"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert gateway.deadlines[0].at_s <= started_s + 1
    async with http.stream("POST", URL, json=STREAM, headers={"x-request-timeout-ms": "50"}) as stream:
        frames = await sse_data(stream.aiter_lines())
    assert json.loads(frames[-1])["error"]["code"] == "deadline_exceeded"
