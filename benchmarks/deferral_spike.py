"""A spike of deferred requests, through a whole mesh: all delivered, in priority order, and the lag metric right.

python benchmarks/deferral_spike.py [--json] [--requests 500] [--quick] [--busy]

The worker is stopped (SIGSTOP) while the spike comes in, so that every request is deferred before the first one runs;
then it goes on. When each request ended is read from the ledger. Requests that run side by side end in any order, so a
request may end after less urgent ones that were begun with it, never after more than the worker runs at once;
`inversions` counts those beyond. `lag_error_s` is the largest difference between the metric and the true age of the
oldest request without an outcome, at all moments at which the metric was read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import httpx
from redis.asyncio import Redis

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.own_mesh import OwnMesh
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc

IN_FLIGHT = 4
PRIORITIES = range(-3, 4)
CONFIG = {
    "gateway": {"routes": {"chat": {"max_concurrency": IN_FLIGHT, "max_queue": 0}}},
    "worker": {"max_in_flight": IN_FLIGHT},
    "supervisor": {"stuck_after_s": 600},
}
METADATA = (("authorization", "Bearer dev"),)
OUTPUT_TOKENS = 4
AT_ONCE, MAX_TRIES = 64, 60
GIVE_UP_S = 1_800.0
LAG = re.compile(r"^stagemesh_deferral_lag_seconds ([-0-9.e+]+)$", re.MULTILINE)
COMPLETED = re.compile(r'^stagemesh_requests_total\{outcome="complete",[^}]*\} ([0-9.e+]+)$', re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Spiked:
    """One request of the spike."""

    request_id: str
    priority: int
    deferred_s: float = 0.0
    """Unix time at which it was deferred."""
    finished_s: float | None = None
    outcome: str = ""


def inversions(requests: Sequence[Spiked], in_flight: int) -> int:
    """Requests that ended before at least `in_flight` more urgent ones, which were all there before any began."""
    ended = sorted((each for each in requests if each.finished_s is not None), key=lambda each: each.finished_s or 0.0)
    urgency = {each.request_id: (-each.priority, each.deferred_s) for each in ended}
    found = 0
    for i, each in enumerate(ended):
        overtaken = sum(urgency[later.request_id] < urgency[each.request_id] for later in ended[i + 1 :])
        found += overtaken >= in_flight
    return found


def true_lag_s(requests: Sequence[Spiked], at_s: float) -> float:
    """Age of the oldest request that was deferred and had no outcome at that moment."""
    waiting = [r.deferred_s for r in requests if r.deferred_s <= at_s and (r.finished_s is None or r.finished_s > at_s)]
    return at_s - min(waiting) if waiting else 0.0


def lag_error_s(requests: Sequence[Spiked], samples: Sequence[tuple[float, float]], slack_s: float) -> float:
    """The largest error of `(time, metric)` samples; the metric is up to `slack_s` old when it is read."""
    errors = []
    for at_s, metric_s in samples:
        moments = [at_s - slack_s * step / 10 for step in range(11)]
        errors.append(min(abs(metric_s - true_lag_s(requests, moment)) for moment in moments))
    return max(errors, default=0.0)


class Mesh(OwnMesh):
    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._state / "mesh.json").read_text())
        return found

    def signal(self, name: str, number: signal.Signals) -> None:
        os.kill(next(process["pid"] for process in self.record["processes"] if process["name"] == name), number)

    @property
    def ports(self) -> tuple[int, int]:
        """gRPC, HTTP."""
        return self._ports[0], self._ports[1]


def make_spike(num_requests: int, seed: int) -> list[Spiked]:
    rng = random.Random(seed)
    return [Spiked(request_id=str(uuid.UUID(int=rng.getrandbits(128), version=4)), priority=rng.choice(PRIORITIES))
            for _ in range(num_requests)]  # fmt: skip


async def submit(mesh: Mesh, spike: Sequence[Spiked]) -> Counter[str]:
    """AT_ONCE at a time; what the callers were told. A refusal that a retry can mend is repeated with the same ID."""
    told: Counter[str] = Counter()
    places = asyncio.Semaphore(AT_ONCE)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{mesh.ports[0]}") as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)

        async def one(each: Spiked) -> None:
            async with places:
                told[await _ask(stub, each, told)] += 1

        await asyncio.gather(*map(one, spike))
    return told


async def _ask(stub: gateway_pb2_grpc.GatewayServiceStub, each: Spiked, told: Counter[str]) -> str:
    """The outcome that the caller was told."""
    request = gateway_pb2.InferenceRequest(
        request_id=each.request_id,
        prompt="The sea is",
        sampling=common_pb2.SamplingParams(temperature=0, max_tokens=OUTPUT_TOKENS, ignore_eos=True),
        allow_deferral=True,
        deferral_priority=each.priority,
    )
    for _ in range(MAX_TRIES):
        try:
            reply = await stub.Complete(gateway_pb2.CompleteRequest(request=request), timeout=120, metadata=METADATA)
        except grpc.aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
                raise
            told["asked_again"] += 1
            await asyncio.sleep(0.5)
            continue
        return common_pb2.Outcome.Name(reply.final.outcome).removeprefix("OUTCOME_").lower()
    raise SystemExit(f"{each.request_id} was refused {MAX_TRIES} times")


async def look(redis: Redis, spike: Sequence[Spiked]) -> list[Spiked]:
    """The spike with what the ledger knows of each."""
    async with redis.pipeline(transaction=False) as pipe:
        for each in spike:
            pipe.hmget(f"stagemesh:ledger:request:dev:{each.request_id}", "finished_ms", "outcome")
        fields = await pipe.execute()
    return [
        replace(each, finished_s=int(finished) / 1000 if finished else None, outcome=(outcome or b"").decode())
        for each, (finished, outcome) in zip(spike, fields, strict=True)
    ]


async def deferral_times(redis: Redis) -> dict[str, float]:
    """Unix times by request ID, from the outbox."""
    found = await redis.zrange("outbox:{stagemesh.deferred.v1}:since", 0, -1, withscores=True)
    return {member.decode().rpartition(":")[2]: score / 1000 for member, score in found}


async def measure(mesh: Mesh, num_requests: int, seed: int) -> dict[str, Any]:
    redis = Redis.from_url(mesh.record["ledger_url"])
    spike, samples, started_s = make_spike(num_requests, seed), list[tuple[float, float]](), time.monotonic()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{mesh.ports[1]}", timeout=30) as http:
        mesh.signal("worker", signal.SIGSTOP)
        told = await submit(mesh, spike)
        since = await deferral_times(redis)
        spike = [replace(each, deferred_s=since[each.request_id]) for each in spike if each.request_id in since]
        mesh.signal("worker", signal.SIGCONT)
        while True:
            text = (await http.get("/metrics")).text
            samples.append((time.time(), float(LAG.findall(text)[0])))
            spike = await look(redis, spike)
            if all(each.finished_s for each in spike) or time.monotonic() - started_s > GIVE_UP_S:
                break
            await asyncio.sleep(1.0)
        await asyncio.sleep(2.5)  # for the metric to be looked at once more
        text = (await http.get("/metrics")).text
        samples.append((time.time(), float(LAG.findall(text)[0])))
        completed = sum(map(float, COMPLETED.findall(text)))
        picked_up = [await http.get(f"/v1/requests/{each.request_id}", headers=dict(METADATA)) for each in spike]
    await redis.aclose()
    outcomes = Counter(each.outcome.removeprefix("OUTCOME_").lower() for each in spike)
    delivered = sum(reply.status_code == 200 and reply.json()["status"] == "ended" for reply in picked_up)
    return {
        "requests": num_requests,
        "deferred": len(spike),
        "told": dict(told),
        "delivered": delivered,
        "outcomes": dict(outcomes),
        "lost": len(spike) - delivered,
        "doubled": int(completed) - outcomes["complete"] - told["complete"],
        "inversions": inversions(spike, IN_FLIGHT),
        "in_flight": IN_FLIGHT,
        "lag_samples": len(samples),
        "lag_error_s": round(lag_error_s(spike, samples, slack_s=2.0), 3),
        "lag_most_s": round(max(metric for _, metric in samples), 1),
        "seconds": round(time.monotonic() - started_s, 1),
    }


def run(num_requests: int, seed: int) -> dict[str, Any]:
    with TemporaryDirectory() as name:
        mesh = Mesh(Path(name) / "mesh")
        mesh.up(CONFIG)
        try:
            return asyncio.run(measure(mesh, num_requests, seed))
        finally:
            mesh.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="40 requests")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks: nothing here is timed")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    options = parser.parse_args()
    with no_lock() if options.busy else benchmark_lock():
        result = run(40 if options.quick else options.requests, options.seed)
    print(
        f"{result['delivered']} of {result['deferred']} delivered, {result['inversions']} out of order, "
        f"lag metric off by at most {result['lag_error_s']} s",
        file=sys.stderr,
    )
    if options.json:
        print(json.dumps(result))
    raise SystemExit(0 if not result["lost"] and not result["doubled"] and not result["inversions"] else 1)


if __name__ == "__main__":
    main()
