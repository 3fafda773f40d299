"""`/v1/requests/{id}/events`: events over a WebSocket, as `Watch` gives them over gRPC."""

import asyncio
import json
import uuid
from typing import Any

import httpx
import pytest
from http_support import FakeGateway, eventually, never
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEY = {"authorization": "Bearer dev"}


async def begin(http: httpx.AsyncClient, request_id: str, **fields: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return await http.post("/v1/chat/completions", json=body, headers={"x-request-id": request_id})


async def messages(address: str, path: str, headers: dict[str, str] = KEY) -> tuple[list[dict[str, Any]], int]:
    """All messages, and the code with which the server closed."""
    said: list[dict[str, Any]] = []
    async with connect(f"ws://{address}{path}", additional_headers=headers) as socket:
        try:
            while True:
                said.append(json.loads(await socket.recv()))
        except ConnectionClosed as closed:
            return said, closed.rcvd.code if closed.rcvd else 0


async def test_all_events_come_in_order_and_the_last_is_the_answer(http: httpx.AsyncClient, address: str) -> None:
    request_id = str(uuid.uuid4())
    answer = await begin(http, request_id)
    said, code = await messages(address, f"/v1/requests/{request_id}/events")
    assert code == 1000
    assert [each["seq"] for each in said] == list(range(1, len(said) + 1))
    assert "".join(each["text"] for each in said if each["type"] == "delta")
    assert said[-1]["type"] == "final"
    assert said[-1]["request"]["choices"][0]["message"] == answer.json()["choices"][0]["message"]


async def test_events_after_a_given_one(http: httpx.AsyncClient, address: str) -> None:
    request_id = str(uuid.uuid4())
    await begin(http, request_id)
    said, _ = await messages(address, f"/v1/requests/{request_id}/events?after=2")
    assert said[0]["seq"] == 3


NOBODY = "0190b2a4-0000-7000-8000-000000000000"
"""The ID of no request."""


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        (f"/v1/requests/{NOBODY}/events", KEY, "request_not_found"),
        ("/v1/requests/nonsense/events", KEY, "invalid_request_id"),
        (f"/v1/requests/{NOBODY}/events?after=-1", KEY, "invalid_value"),
        (f"/v1/requests/{NOBODY}/events", {"authorization": "Bearer other"}, "invalid_api_key"),
    ],
)
async def test_errors_are_the_last_message(
    gateway: FakeGateway, address: str, path: str, headers: dict[str, str], code: str
) -> None:
    said, closed = await messages(address, path, headers)
    assert [each["error"]["code"] for each in said] == [code]
    assert closed == 1008


async def test_a_caller_who_leaves_stops_being_followed_and_the_request_goes_on(
    gateway: FakeGateway, http: httpx.AsyncClient, address: str
) -> None:
    gateway.script = never
    request_id = str(uuid.uuid4())
    asking = asyncio.create_task(begin(http, request_id))
    await eventually(lambda: request_id in gateway.requests)
    running = gateway.requests[request_id]
    async with connect(f"ws://{address}/v1/requests/{request_id}/events", additional_headers=KEY) as socket:
        await socket.recv()
        await socket.send("nobody reads this")
        await eventually(lambda: running.num_readers == 2)
    await eventually(lambda: running.num_readers == 1)
    assert not running.done
    running.cancel()
    await asking


async def test_a_socket_that_lasts_longer_than_a_head_may_is_kept(
    gateway: FakeGateway, http: httpx.AsyncClient, address: str
) -> None:
    gateway.script = never
    request_id = str(uuid.uuid4())
    asking = asyncio.create_task(begin(http, request_id))
    await eventually(lambda: request_id in gateway.requests)
    async with connect(f"ws://{address}/v1/requests/{request_id}/events", additional_headers=KEY) as socket:
        await asyncio.sleep(0.7)  # the head's time of these tests is 0.5 s
        gateway.requests[request_id].cancel()
        said = [json.loads(text) async for text in socket]
    assert said[-1]["type"] == "final"
    await asking


async def test_other_paths_take_no_sockets_and_plain_requests_go_on(http: httpx.AsyncClient, address: str) -> None:
    with pytest.raises(InvalidStatus):
        async with connect(f"ws://{address}/v1/models", additional_headers=KEY):
            pass
    assert (await http.get("/v1/models")).status_code == 200
