"""Every kind of constraint through the front doors, and a storm of bad ones beside other tenants' requests."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import grpc
import pytest
from mesh_support import AUTH, Mesh, ask, complete

from benchmarks.schema_storm import measure
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.errors import from_rpc

FIELDS = {"customer_name": {"type": "string", "maxLength": 20}, "number_of_items": {"type": "integer", "maximum": 99}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": [*FIELDS], "additionalProperties": False}
KINDS: dict[str, tuple[common_pb2.OutputConstraint, str]] = {
    "json_schema": (
        common_pb2.OutputConstraint(json_schema=json.dumps(SCHEMA)),
        r'\{"customer_name":"[^"]{0,20}","number_of_items":-?\d+\}',
    ),
    "json_object": (common_pb2.OutputConstraint(json_object=True), r"\{.*\}"),
    "regex": (common_pb2.OutputConstraint(regex=r"The answer is [0-9]{2}\."), r"The answer is \d\d\."),
    "grammar": (
        common_pb2.OutputConstraint(grammar='start: "SELECT " NAME " FROM orders;"\nNAME: /[a-z]{2,8}/'),
        "SELECT [a-z]{2,8} FROM orders;",
    ),
    "choice": (
        common_pb2.OutputConstraint(choice=common_pb2.ChoiceList(values=["quite likely", "quite unlikely"])),
        "quite (un)?likely",
    ),
}
SAMPLING = {"temperature": 0.0, "max_tokens": 120}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_holds_over_grpc(mesh: Mesh, kind: str) -> None:
    constraint, expected = KINDS[kind]
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        final = await complete(stub, ask("Invent something.", constraint=constraint, sampling=SAMPLING))
    assert re.fullmatch(expected, final.choices[0].text, re.DOTALL)
    if kind != "json_object":
        assert final.choices[0].validation.valid
        assert final.usage.forced_tokens > 0
        assert final.usage.forwards < final.usage.completion_tokens


def test_every_kind_holds_over_http(mesh: Mesh) -> None:
    client = mesh.openai()
    bodies: dict[str, Any] = {
        "json_schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        "regex": {"regex": KINDS["regex"][0].regex},
        "grammar": {"grammar": KINDS["grammar"][0].grammar},
        "choice": {"choice": list(KINDS["choice"][0].choice.values)},
    }
    guided: dict[str, Any] = {
        "json_schema": {"guided_json": SCHEMA},
        "regex": {"structured_outputs": {"regex": KINDS["regex"][0].regex}},
        "choice": {"guided_choice": list(KINDS["choice"][0].choice.values)},
    }
    for kind, body in (*bodies.items(), *guided.items()):
        answer = client.chat.completions.create(
            model="smollm2-135m-instruct",
            messages=[{"role": "user", "content": "Invent something."}],
            temperature=0,
            max_tokens=120,
            extra_body=body,
        )
        assert re.fullmatch(KINDS[kind][1], answer.choices[0].message.content or "", re.DOTALL)


def heavy(number: int) -> dict[str, Any]:
    return {"properties": {f"p{number}_{index}": {} for index in range(10_000)}, "additionalProperties": False}


def storm() -> list[dict[str, Any]]:
    remote = [{"properties": {f"r{number}": {"$ref": f"http://192.0.2.{number}/x"}}} for number in range(4)]
    circles = [{"allOf": [{"$ref": "#"}], "title": str(number)} for number in range(4)]
    patterns = [{"type": "string", "pattern": "(a+)+$" + "(" * (1 + number)} for number in range(4)]
    return [*remote, *circles, *patterns, *map(heavy, range(6))]


async def test_a_storm_of_bad_schemas_is_refused_and_others_go_on(mesh: Mesh) -> None:
    key = mesh.command("tenant", "create", "stormy").stdout.strip()
    metadata = (("authorization", f"Bearer {key}"),)
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)

        async def refused(schema: dict[str, Any]) -> str:
            request = ask(
                "a", constraint=common_pb2.OutputConstraint(json_schema=json.dumps(schema)), sampling=SAMPLING
            )
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Complete(gateway_pb2.CompleteRequest(request=request), metadata=metadata, timeout=90)
            return from_rpc(caught.value).reason

        storming = [asyncio.create_task(refused(schema)) for schema in storm()]
        for number in range(3):
            plain = await complete(stub, ask("Say hello.", sampling={"temperature": 0.0, "max_tokens": 8}))
            assert plain.outcome == common_pb2.OUTCOME_COMPLETE
            own = {**SCHEMA, "title": f"an order {number}"}
            constraint = common_pb2.OutputConstraint(json_schema=json.dumps(own))
            held = await complete(stub, ask("Invent an order.", constraint=constraint, sampling=SAMPLING))
            assert held.choices[0].validation.valid
        reasons = set(await asyncio.gather(*storming))
    allowed = {"INVALID_SCHEMA", "INVALID_CONSTRAINT", "CONSTRAINT_TOO_COMPLEX", "VALIDATION_BUSY"}
    assert reasons <= allowed
    assert "CONSTRAINT_TOO_COMPLEX" in reasons


async def test_too_large_a_constraint_is_called_too_large(mesh: Mesh) -> None:
    choices = common_pb2.ChoiceList(values=[f"a choice of some length, number {number}" for number in range(9_000)])
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        request = ask("a", constraint=common_pb2.OutputConstraint(choice=choices))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Complete(gateway_pb2.CompleteRequest(request=request), metadata=AUTH, timeout=60)
    error = from_rpc(caught.value)
    assert (error.reason, error.field) == ("CONSTRAINT_TOO_LARGE", "constraint.choice")


async def test_the_benchmark_of_the_storm_ends_with_its_figures(mesh: Mesh) -> None:
    keys = [mesh.command("tenant", "create", name).stdout.strip() for name in ("attacker", "user")]
    found = await measure(f"127.0.0.1:{mesh.grpc_port}", *keys, rounds=1, each=1, width=2)
    assert found["failed"] == {}
    assert found["requests_of_each_kind"] == 1
    assert "ACCEPTED" not in found["storm_reasons"]
