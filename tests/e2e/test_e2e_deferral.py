"""Over capacity: accepted for later, worked off by the worker, delivered once, whoever is killed meanwhile."""

import asyncio
import json
import os
import signal
import uuid
from collections.abc import Iterator

import httpx
import pytest
from mesh_support import AUTH, Mesh, ask, complete, wait_until
from redis.asyncio import Redis

from benchmarks.deferral_spike import Spiked, inversions, look
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.models.store import ModelFiles

CONFIG = {
    "gateway": {
        "routes": {"chat": {"max_concurrency": 2, "max_queue": 0}},
        "republish_after_s": 3,
        "lease_s": 3,
    }
}
NUM_REQUESTS = 10


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> Iterator[Mesh]:
    """A mesh with two slots and no queue."""
    running = Mesh(tmp_path_factory.mktemp("narrow"), CONFIG)
    running.up()
    yield running
    running.down()


def requests() -> list[gateway_pb2.InferenceRequest]:
    return [
        ask(f"Say something about number {i}.", request_id=str(uuid.uuid4()), allow_deferral=True)
        for i in range(NUM_REQUESTS)
    ]


async def submit(mesh: Mesh, asked: list[gateway_pb2.InferenceRequest]) -> list[gateway_pb2.Final]:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        return list(await asyncio.gather(*(complete(stub, request) for request in asked)))


async def watch(mesh: Mesh, request_id: str, timeout_s: float = 100) -> list[gateway_pb2.Event]:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        call = stub.Watch(gateway_pb2.WatchRequest(request_id=request_id), metadata=AUTH, timeout=timeout_s)
        return [response.event async for response in call]


def text_of(events: list[gateway_pb2.Event]) -> str:
    return "".join(event.delta.text for event in events if event.HasField("delta"))


def get(url: str) -> httpx.Response:
    return httpx.get(url, headers={"authorization": "Bearer dev"})


async def check_delivered(mesh: Mesh, asked: list[gateway_pb2.InferenceRequest]) -> None:
    """Each has one complete outcome, which Watch, HTTP and a repeat all tell."""
    for request in asked:
        events = await watch(mesh, request.request_id)
        final = events[-1].final
        assert final.outcome == common_pb2.OUTCOME_COMPLETE, final.error
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert text_of(events) in {"", final.choices[0].text}
        picked_up = get(f"http://127.0.0.1:{mesh.http_port}/v1/requests/{request.request_id}")
        assert picked_up.status_code == 200
        assert picked_up.json()["choices"][0]["message"]["content"] == final.choices[0].text
    again = await submit(mesh, asked[-1:])
    assert again[0].choices[0].text == final.choices[0].text
    assert again[0].total_us == final.total_us


async def test_what_is_too_much_is_deferred_and_delivered(narrow: Mesh) -> None:
    asked = requests()
    finals = await submit(narrow, asked)
    outcomes = [final.outcome for final in finals]
    assert outcomes.count(common_pb2.OUTCOME_DEFERRED) >= NUM_REQUESTS - 4
    await check_delivered(narrow, asked)


async def test_without_permission_to_defer_it_is_refused_with_a_time_to_retry(narrow: Mesh) -> None:
    plain = [ask("Count.", sampling={"max_tokens": 40, "ignore_eos": True}) for _ in range(6)]
    async with narrow.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        results = await asyncio.gather(*(complete(stub, request) for request in plain), return_exceptions=True)
    refused = [result for result in results if isinstance(result, Exception)]
    assert len(refused) == 4
    assert all("QUEUE_FULL" in str(error.trailing_metadata()) for error in refused)  # type: ignore[attr-defined]


def test_over_http_it_is_503_with_the_place_to_ask(narrow: Mesh) -> None:
    async def burst() -> list[httpx.Response]:
        body = {
            "model": "smollm2-135m-instruct",
            "messages": [{"role": "user", "content": "Count."}],
            "max_tokens": 30,
            "allow_deferral": True,
        }
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{narrow.http_port}", timeout=90) as client:
            sent = (
                client.post("/v1/chat/completions", json=body, headers={"authorization": "Bearer dev"})
                for _ in range(6)
            )
            return list(await asyncio.gather(*sent))

    deferred = [answer for answer in asyncio.run(burst()) if answer.status_code == 503]
    assert deferred
    for answer in deferred:
        assert answer.json()["error"]["code"] == "deferred"
        assert answer.headers["retry-after"]
        place = f"http://127.0.0.1:{narrow.http_port}{answer.headers['location']}"
        wait_until(lambda place=place: get(place).status_code == 200, 100, "delivery")  # type: ignore[misc]


async def test_a_short_spike_is_worked_off_in_priority_order(narrow: Mesh) -> None:
    """The short form of benchmarks/deferral_spike.py; the worker stands still until all of it is there."""
    asked = requests()
    for request, priority in zip(asked, (0, 5, -5, 3, 0, 9, -9, 1, 5, 2), strict=True):
        request.deferral_priority = priority
    worker = narrow.status()["worker"]["pid"]
    os.kill(worker, signal.SIGSTOP)
    try:
        finals = await submit(narrow, asked)
        seen_by_operator = json.loads(narrow.command("deferred", "list", "--json").stdout)
    finally:
        os.kill(worker, signal.SIGCONT)
    deferred = [
        Spiked(request_id=request.request_id, priority=request.deferral_priority, deferred_s=float(i))
        for i, (request, final) in enumerate(zip(asked, finals, strict=True))
        if final.outcome == common_pb2.OUTCOME_DEFERRED
    ]
    assert len(deferred) >= NUM_REQUESTS - 4
    assert {entry["request_id"] for entry in seen_by_operator} == {each.request_id for each in deferred}
    priorities = [entry["priority"] for entry in seen_by_operator]
    assert priorities == sorted(priorities, reverse=True)
    await check_delivered(narrow, asked)
    redis = Redis.from_url(json.loads((narrow.state / "mesh.json").read_text())["ledger_url"])
    ended = await look(redis, deferred)
    await redis.aclose()
    assert inversions(ended, in_flight=4) == 0


@pytest.mark.chaos
@pytest.mark.parametrize("victim", ["worker", "kafka", "gateway"])
async def test_a_kill_in_between_loses_nothing_and_doubles_nothing(narrow: Mesh, victim: str) -> None:
    asked = requests()
    finals = await submit(narrow, asked)
    assert any(final.outcome == common_pb2.OUTCOME_DEFERRED for final in finals)
    narrow.kill(victim)
    wait_until(narrow.is_ready, 30, f"{victim} is back")
    await check_delivered(narrow, asked)
