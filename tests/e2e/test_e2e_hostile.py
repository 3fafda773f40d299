"""Hostile input at the front door: a typed error each time, and every service alive afterwards."""

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from mesh_support import AUTH, Mesh, ask, complete

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.errors import from_rpc

RECURSIVE = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "all": {"allOf": [{"$ref": "#"}]}},
    "required": ["left", "right"],
}
NESTED = '{"items":' * 5_000 + "{}" + "}" * 5_000


@pytest.fixture
async def stub(mesh: Mesh) -> AsyncIterator[gateway_pb2_grpc.GatewayServiceStub]:
    pids = {name: process["pid"] for name, process in mesh.status().items()}
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{mesh.grpc_port}", options=options) as channel:
        yield gateway_pb2_grpc.GatewayServiceStub(channel)
    after = {name: process["pid"] for name, process in mesh.status().items()}
    assert after == pids, "a service did not survive"


def schema(document: Any) -> common_pb2.OutputConstraint:
    text = document if isinstance(document, str) else json.dumps(document)
    return common_pb2.OutputConstraint(json_schema=text)


CASES: dict[str, tuple[gateway_pb2.InferenceRequest, grpc.StatusCode]] = {
    "10 MB prompt": (ask("x" * 10_000_000), grpc.StatusCode.RESOURCE_EXHAUSTED),
    "no message": (gateway_pb2.InferenceRequest(chat=common_pb2.ChatMessages()), grpc.StatusCode.INVALID_ARGUMENT),
    "empty message": (ask(""), grpc.StatusCode.INVALID_ARGUMENT),
    "no input": (gateway_pb2.InferenceRequest(), grpc.StatusCode.INVALID_ARGUMENT),
    "NaN temperature": (ask("a", sampling={"temperature": float("nan")}), grpc.StatusCode.INVALID_ARGUMENT),
    "max_tokens over the context": (ask("a", sampling={"max_tokens": 1_000_000}), grpc.StatusCode.INVALID_ARGUMENT),
    "unknown model": (ask("a", model="nowhere"), grpc.StatusCode.NOT_FOUND),
    "schema that is no JSON": (ask("a", constraint=schema('{"type"')), grpc.StatusCode.INVALID_ARGUMENT),
    "schema of a wrong type": (ask("a", constraint=schema({"type": "wizard"})), grpc.StatusCode.INVALID_ARGUMENT),
    "schema that is nested 5,000 deep": (ask("a", constraint=schema(NESTED)), grpc.StatusCode.INVALID_ARGUMENT),
    "schema with a remote reference": (
        ask("a", constraint=schema({"$ref": "http://192.0.2.1/schema.json"})),
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "regex that does not parse": (
        ask("a", constraint=common_pb2.OutputConstraint(regex="(((")),
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "grammar that does not parse": (
        ask("a", constraint=common_pb2.OutputConstraint(grammar="start: nowhere")),
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "prompt over the context": (ask("word " * 20_000), grpc.StatusCode.INVALID_ARGUMENT),
}


@pytest.mark.parametrize("case", CASES)
async def test_it_is_a_typed_error(stub: gateway_pb2_grpc.GatewayServiceStub, case: str) -> None:
    request, code = CASES[case]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await complete(stub, request, timeout_s=30)
    error = from_rpc(caught.value)
    assert caught.value.code() is code, error
    assert error.reason.isupper()
    assert error.reason != code.name, f"no reason of ours: {error}"
    assert error.message


async def test_catastrophic_and_recursive_constraints_end_in_time(stub: gateway_pb2_grpc.GatewayServiceStub) -> None:
    for constraint in (common_pb2.OutputConstraint(regex="(a+)+$"), schema(RECURSIVE), schema({"pattern": "(a+)+$"})):
        asked = ask("aaaa", constraint=constraint, sampling={"max_tokens": 8})
        call = stub.Complete(gateway_pb2.CompleteRequest(request=asked), metadata=AUTH, timeout=30)
        assert await call.code() in {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}, await call.details()


async def test_a_deadline_that_has_passed_is_said(stub: gateway_pb2_grpc.GatewayServiceStub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await complete(stub, ask("a", sampling={"max_tokens": 400, "ignore_eos": True}), timeout_s=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_bytes_that_are_no_utf8_are_an_invalid_argument(mesh: Mesh) -> None:
    async with mesh.channel() as channel:
        call = channel.unary_unary("/stagemesh.api.gateway.v1.GatewayService/Complete")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\x0a\x04\x12\x02\xff\xfe", metadata=AUTH, timeout=10)  # request.model
        assert from_rpc(caught.value).reason == "MALFORMED_MESSAGE"


def test_a_10_mb_body_over_http_is_refused(mesh: Mesh) -> None:
    body = json.dumps({"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "x" * 10_000_000}]})
    headers = {"authorization": "Bearer dev", "content-type": "application/json"}
    answer = httpx.post(f"http://127.0.0.1:{mesh.http_port}/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"]


async def test_a_key_of_another_tenant_does_not_open_this_one(mesh: Mesh) -> None:
    key = mesh.command("tenant", "create", "acme").stdout.split()[-1]
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        request = gateway_pb2.CompleteRequest(request=ask("a", sampling={"max_tokens": 1}))
        metadata = (("authorization", f"Bearer {key}"), ("x-tenant-id", "dev"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Complete(request, metadata=metadata, timeout=30)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        own = (("authorization", f"Bearer {key}"), ("x-tenant-id", "acme"))
        assert (await stub.Complete(request, metadata=own, timeout=60)).final.choices
