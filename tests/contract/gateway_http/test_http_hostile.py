"""Hostile and broken input: a typed error each time, and the server goes on."""

from __future__ import annotations

import asyncio
import json
import uuid

import httpx
import pytest
from http_support import FakeGateway, never

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "/v1/chat/completions"
JSON = {"content-type": "application/json"}
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


def check_error(reply: httpx.Response, status: int, code: str, param: str | None = None) -> None:
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"[]", b"null", b"\x00", b"[" * 5_000 + b"]" * 5_000),
        *(b'{"temperature": NaN}', b'{"temperature": Infinity}', b'{"top_p": 1e999}'),
        *(b'{"model": "\xff\xfe"}', b'{"model": "\\ud800"}'),
    ],
)
async def test_what_is_no_json_object_is_refused(http: httpx.AsyncClient, raw: bytes) -> None:
    check_error(await http.post(URL, content=raw, headers=JSON), 400, "invalid_json")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_other_media_types_are_refused(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    check_error(
        await http.post(URL, content=json.dumps(HELLO).encode(), headers=headers), 415, "unsupported_media_type"
    )


async def test_a_large_body_is_refused_whether_it_says_its_size_or_not(
    http: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    async def chunks():  # type: ignore[no-untyped-def]  # httpx sends an async iterator chunked
        for _ in range(160):
            yield b" " * 65_536

    check_error(await http.post(URL, content=b" " * 10_485_760, headers=JSON), 413, "request_too_large")
    check_error(await http.post(URL, content=chunks(), headers=JSON), 413, "request_too_large")
    assert (await http.post(URL, json=HELLO)).status_code == 200


async def test_the_key_is_checked_before_the_body(address: str, gateway: FakeGateway) -> None:
    async with httpx.AsyncClient(base_url=f"http://{address}") as http:
        reply = await http.post(URL, content=b" " * 10_485_760, headers=JSON)
    check_error(reply, 401, "invalid_api_key")
    assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("headers", "status", "code", "param"),
    [
        ({"x-request-id": "17"}, 400, "invalid_request_id", "x-request-id"),
        ({"idempotency-key": "abc"}, 400, "invalid_request_id", "idempotency-key"),
        (
            {"x-request-id": str(uuid.uuid4()), "idempotency-key": str(uuid.uuid4())},
            400,
            "invalid_request_id",
            "idempotency-key",
        ),
        ({"x-tenant-id": "other"}, 403, "tenant_mismatch", "x-tenant-id"),
        ({"x-request-timeout-ms": "0"}, 400, "invalid_timeout", "x-request-timeout-ms"),
        ({"x-request-timeout-ms": "1e3"}, 400, "invalid_timeout", "x-request-timeout-ms"),
        ({"x-request-timeout-ms": "9" * 5_000}, 400, "invalid_timeout", "x-request-timeout-ms"),
    ],
)
async def test_a_bad_header_is_named(
    http: httpx.AsyncClient, headers: dict[str, str], status: int, code: str, param: str
) -> None:
    check_error(await http.post(URL, json=HELLO, headers=headers), status, code, param)


async def test_urls_and_methods_that_are_not_there(http: httpx.AsyncClient) -> None:
    check_error(await http.get("/v2/nothing"), 404, "unknown_url")
    check_error(await http.get("/v1/models/"), 404, "model_not_found", "model")
    reply = await http.get(URL)
    check_error(reply, 405, "method_not_allowed")
    assert reply.headers["allow"] == "POST"


async def test_requests_by_id_are_checked(http: httpx.AsyncClient) -> None:
    unknown = f"/v1/requests/{uuid.uuid4()}"
    check_error(await http.get("/v1/requests/abc"), 400, "invalid_request_id", "request_id")
    check_error(await http.get(unknown), 404, "request_not_found", "request_id")
    check_error(await http.delete(unknown), 404, "request_not_found", "request_id")
    check_error(await http.get(unknown, params={"wait": "nan"}), 400, "invalid_value", "wait")
    check_error(await http.get(unknown, params={"wait": "31"}), 400, "invalid_value", "wait")
    check_error(await http.get(unknown, params={"object": "x"}), 400, "invalid_value", "object")


async def talk(address: str, sent: bytes, *, then: bytes = b"") -> bytes:
    """What the server says to raw bytes until it closes the connection."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    await writer.drain()
    if then:
        writer.write(then)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def test_a_head_that_never_ends_is_timed_out(address: str) -> None:
    assert (await talk(address, b"POST /v1/models HTTP/1.1\r\nhost: x\r\nx-a")).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_that_says_nothing_is_closed(address: str) -> None:
    assert await talk(address, b"") == b""
    assert await talk(address, b"\r\n") == b""


async def test_a_head_that_is_too_large_is_refused(address: str) -> None:
    reply = await talk(address, b"GET /healthz HTTP/1.1\r\n", then=b"x-a: " + b"a" * 200_000)
    assert reply.startswith(b"HTTP/1.1 431 ")


async def test_bytes_that_are_no_http_are_refused(address: str) -> None:
    reply = await talk(address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"invalid_http"' in reply


async def test_a_body_without_end_is_cut_off_after_its_refusal(address: str) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n"
    reply = await talk(address, head + b" " * 1_000)  # never the rest
    assert reply.startswith(b"HTTP/1.1 401 ")


async def test_a_connection_stays_usable_after_a_refused_body(http: httpx.AsyncClient, address: str) -> None:
    body = b" " * 2_000_000
    head = f"POST {URL} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer dev\r\ncontent-type: application/json\r\n"
    first = head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body
    reply = await talk(address, first, then=b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"HTTP/1.1 200 OK" in reply


async def test_too_many_connections_are_told_so(address: str, gateway: FakeGateway) -> None:
    host, port = address.split(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(64)]
    assert b"503" in (await talk(address, b""))[:20]
    for _, writer in opened:
        writer.close()


async def test_a_slow_body_does_not_hold_the_server(
    address: str, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.http.body.BODY_TIMEOUT_S", 0.1)
    head = f"POST {URL} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer dev\r\ncontent-type: application/json\r\n"
    reply = await talk(address, head.encode() + b'content-length: 100\r\n\r\n{"mess')
    assert reply.startswith(b"HTTP/1.1 408 ")


async def test_a_cancelled_request_says_so_to_its_first_caller(http: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.script = never
    request_id = str(uuid.uuid4())
    calling = asyncio.create_task(http.post(URL, json=HELLO, headers={"x-request-id": request_id}))
    while not gateway.requests:
        await asyncio.sleep(0.005)
    assert (await http.get(f"/v1/requests/{request_id}")).status_code == 202
    assert (await http.delete(f"/v1/requests/{request_id}")).json()["outcome"] == "cancelled"
    check = await calling
    assert (check.status_code, check.json()["error"]["code"]) == (499, "cancelled")
    stored = (await http.get(f"/v1/requests/{request_id}")).json()
    assert (stored["status"], stored["outcome"], stored["error"]["code"]) == ("ended", "cancelled", "cancelled")


@pytest.mark.parametrize(
    "field", ["cache_salt", "salt", "kv", "lease", "lease_id", "namespace", "public", "tenant_id", "stored_tokens"]
)
async def test_nothing_of_a_lease_can_be_given_by_a_client(http: httpx.AsyncClient, field: str) -> None:
    for value in ("x", {"namespace": "stagemesh:kv:{x}:", "public_tokens": 16}):
        reply = await http.post(URL, json={**HELLO, field: value})
        assert reply.status_code == 400
        assert field in reply.json()["error"]["message"]
