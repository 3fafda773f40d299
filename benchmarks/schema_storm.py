"""Whether one tenant's malicious schemas make another tenant's requests wait.

    python benchmarks/schema_storm.py --json
    python benchmarks/schema_storm.py --quick --busy --json      # a few requests, which say nothing about p99

One tenant sends schemas that recurse into themselves, hold (a+)+$, have 10,000 properties or point to other machines,
each another one, several at once. Beside it another tenant asks, one request after the other: plain ones, some under a
schema that it uses always, some under schemas that are new each time. Rounds with and without the storm alternate, so
that what else the machine does falls on both. `*_ratio` is the p99 in the storm by that without.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any

import grpc

from benchmarks.cache_warmth import PATIENT
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.own_mesh import OwnMesh
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.errors import from_rpc

KINDS = ("plain", "known_schema", "new_schema")
NUM_TOKENS = 12
TIMEOUT_S = 120.0
MANY = 10_000
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "count": {"type": "integer", "maximum": 9}},
    "required": ["name", "count"],
    "additionalProperties": False,
}


@dataclass
class Seen:
    times_ms: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    failed: Counter[str] = field(default_factory=Counter)
    """Of the tenant that behaves, by reason."""


def storm() -> Iterator[str]:
    """Malicious schemas without end, no two alike."""
    for number in count():
        yield json.dumps({**_malicious(number), "title": f"storm {number}"})


def _malicious(number: int) -> dict[str, Any]:
    match number % 4:
        case 0:
            loop = {"$ref": "#/$defs/a"}
            branches = {
                "anyOf": [{"type": "object", "properties": {"x": loop, "y": loop}}, {"type": "array", "items": loop}]
            }
            return {"$defs": {"a": branches}, "allOf": [loop] * 50}
        case 1:
            pattern = "^(a+)+$" * (1 + number % 40)
            return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
        case 2:
            return {
                "properties": {f"p{number}_{index}": {} for index in range(MANY)},
                "additionalProperties": False,
            }
        case _:
            return {"$ref": f"https://schemas.example.com/{number}.json"}


async def ask(
    stub: gateway_pb2_grpc.GatewayServiceStub, key: str, schema: str, *, text: str = "Invent something."
) -> str:
    """One request; gives why it failed, or an empty text."""
    request = gateway_pb2.InferenceRequest(
        chat=common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content=text)]),
        sampling=common_pb2.SamplingParams(temperature=0, max_tokens=NUM_TOKENS, seed=1),
    )
    if schema:
        request.constraint.json_schema = schema
    try:
        answer = await stub.Complete(
            gateway_pb2.CompleteRequest(request=request),
            metadata=(("authorization", f"Bearer {key}"),),
            timeout=TIMEOUT_S,
        )
    except grpc.aio.AioRpcError as error:
        return from_rpc(error).reason
    outcome = answer.final.outcome
    return (
        "" if outcome == common_pb2.OUTCOME_COMPLETE else answer.final.error.reason or common_pb2.Outcome.Name(outcome)
    )


async def behave(
    stub: gateway_pb2_grpc.GatewayServiceStub, key: str, each: int, numbers: Iterator[int], seen: Seen
) -> None:
    """Ask `each` requests of each kind, one after the other."""
    for _ in range(each):
        for kind in KINDS:
            new = {**SCHEMA, "title": f"own {next(numbers)}"}
            schema = {"plain": "", "known_schema": json.dumps(SCHEMA), "new_schema": json.dumps(new)}[kind]
            started_s = time.perf_counter()
            reason = await ask(stub, key, schema)
            seen.times_ms[kind].append(1e3 * (time.perf_counter() - started_s))
            if reason and reason != "TRUNCATED":
                seen.failed[f"{kind}: {reason}"] += 1


@asynccontextmanager
async def storming(
    stub: gateway_pb2_grpc.GatewayServiceStub, key: str, schemas: Iterator[str], width: int, reasons: Counter[str]
) -> AsyncIterator[None]:
    """Send schemas from `width` callers at once meanwhile."""

    async def send() -> None:
        while True:
            reasons[await ask(stub, key, next(schemas)) or "ACCEPTED"] += 1

    senders = [asyncio.create_task(send()) for _ in range(width)]
    try:
        yield
    finally:
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def measure(address: str, attacker: str, user: str, *, rounds: int, each: int, width: int) -> dict[str, Any]:
    """`attacker`, `user`: the keys of two tenants."""
    quiet, stormy, reasons = Seen(), Seen(), Counter[str]()
    numbers, schemas = count(), storm()
    async with (
        grpc.aio.insecure_channel(address) as channel,
        grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as other,
    ):
        stub, others = gateway_pb2_grpc.GatewayServiceStub(channel), gateway_pb2_grpc.GatewayServiceStub(other)
        await behave(stub, user, 1, numbers, Seen())  # what only the first request meets
        for has_storm, _ in zip(cycle((False, True)), range(2 * rounds), strict=False):
            if not has_storm:
                await behave(stub, user, each, numbers, quiet)
                continue
            async with storming(others, attacker, schemas, width, reasons):
                await behave(stub, user, each, numbers, stormy)
    return summary(quiet, stormy, reasons)


def summary(quiet: Seen, stormy: Seen, reasons: Counter[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in KINDS:
        without, within = quiet.times_ms[kind], stormy.times_ms[kind]
        found |= {
            f"{kind}_p50_ms": round(statistics.median(without), 1),
            f"{kind}_p50_in_storm_ms": round(statistics.median(within), 1),
            f"{kind}_p99_ms": round(p99(without), 1),
            f"{kind}_p99_in_storm_ms": round(p99(within), 1),
            f"{kind}_p99_ratio": round(p99(within) / p99(without), 3),
        }
    return {
        "requests_of_each_kind": len(quiet.times_ms["plain"]),
        **found,
        "failed": dict(quiet.failed + stormy.failed),
        "storm_schemas": sum(reasons.values()),
        "storm_reasons": dict(reasons),
    }


def p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="each with and without the storm (default: 10)")
    parser.add_argument("--each", type=int, default=20, help="requests of each kind in a round (default: 20)")
    parser.add_argument("--width", type=int, default=8, help="malicious requests at once (default: 8)")
    parser.add_argument("--quick", action="store_true", help="one round of two requests of each kind")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.each = 1, 2
    with no_lock() if given.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        mesh = OwnMesh(Path(folder) / "mesh")
        mesh.up(PATIENT)
        try:
            keys = [mesh.new_tenant(name) for name in ("attacker", "user")]
            sizes = {"rounds": given.rounds, "each": given.each, "width": given.width}
            found = asyncio.run(measure(mesh.grpc_address, *keys, **sizes))
        finally:
            mesh.down()
    if given.json:
        print(json.dumps({"machine": describe_machine(), **found}))
        return
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
