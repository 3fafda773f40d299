"""A gateway over a real Valkey, without an engine: what is accepted is ended, whoever leaves or comes when."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from quality_support import Valkey, free_port, running_valkey

from services.gateway import pipeline
from services.gateway.config import GatewayConfig, RouteConfig
from services.gateway.core import Gateway
from services.gateway.ledger import LEASES, Ledger
from services.gateway.peers import connect
from services.gateway.service import GatewayService
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.identity import Identity
from stagemesh.runtime.mesh_config import Addresses, MeshConfig
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.redis_client import connect as connect_redis

TENANT = Tenant("t")
CONFIG = GatewayConfig(lease_s=0.6, routes={"chat": RouteConfig(max_concurrency=1, max_queue=1)})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    folder: Path = tmp_path_factory.mktemp("acceptance")
    with running_valkey(folder) as valkey:
        yield valkey


@pytest.fixture
async def redis(server: Valkey) -> AsyncIterator[Redis]:
    client = connect_redis(server.url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def gateway(server: Valkey, redis: Redis) -> AsyncIterator[Gateway]:
    """Its requests wait for an engine that does not come."""
    nobody = [f"127.0.0.1:{free_port()}"]
    addresses = Addresses(tokenizer=nobody, engine=nobody, cache=nobody, validator=nobody, corrector=nobody)
    mesh = MeshConfig(addresses=addresses, redis_url=server.url, kafka_bootstrap=nobody[0])
    service = GatewayService(mesh, CONFIG, Identity(instance="gateway", generation=1), await connect(mesh))
    yield service.gateway
    await service.drain(0)
    await service.close()


@contextmanager
def paused(server: Valkey) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def asked(**fields: object) -> gateway_pb2.InferenceRequest:
    return gateway_pb2.InferenceRequest(request_id=str(uuid.uuid4()), prompt="p", **fields)  # type: ignore[arg-type]


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 5.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(what)


async def nothing_in_work(gateway: Gateway, redis: Redis) -> None:
    async def is_clean() -> bool:
        return not gateway.working_on() and not await redis.zcard(LEASES)

    await until(is_clean, "requests are still in work")


def num_running() -> float | None:
    return REGISTRY.get_sample_value("stagemesh_requests_running", {"route": "chat"})


async def test_a_caller_who_leaves_while_the_request_is_accepted_leaves_nothing_behind(
    server: Valkey, redis: Redis, gateway: Gateway
) -> None:
    plain = gateway_pb2.InferenceRequest(prompt="p")
    with paused(server):
        callers = [asyncio.create_task(gateway.submit(TENANT, plain, Deadline.after(20))) for _ in range(2)]
        await asyncio.sleep(0.02)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    await nothing_in_work(gateway, redis)
    running = await gateway.submit(TENANT, plain, Deadline.after(20))  # their places in the queue are free
    running.cancel()


async def test_a_caller_with_an_id_finds_the_request_that_it_left_while_it_was_accepted(
    server: Valkey, gateway: Gateway
) -> None:
    request = asked()
    with paused(server):
        caller = asyncio.create_task(gateway.submit(TENANT, request, Deadline.after(20)))
        await asyncio.sleep(0.02)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
    running = await gateway.submit(TENANT, request, Deadline.after(20))
    assert not running.done
    assert await gateway.cancel(TENANT, request.request_id) == common_pb2.OUTCOME_CANCELLED


async def test_a_request_can_be_cancelled_while_it_is_accepted(server: Valkey, gateway: Gateway) -> None:
    request = asked()
    with paused(server):
        caller = asyncio.create_task(gateway.submit(TENANT, request, Deadline.after(20)))
        await asyncio.sleep(0.02)
        cancelling = asyncio.create_task(gateway.cancel(TENANT, request.request_id))
        await asyncio.sleep(0.02)
    async with asyncio.timeout(5):
        assert await cancelling == common_pb2.OUTCOME_CANCELLED
        assert (await (await caller).final()).outcome == common_pb2.OUTCOME_CANCELLED


async def test_a_request_that_is_cancelled_as_it_starts_is_ended(redis: Redis, gateway: Gateway) -> None:
    running = await gateway.submit(TENANT, asked(), Deadline.after(20))
    running.cancel()
    async with asyncio.timeout(5):
        assert (await running.final()).outcome == common_pb2.OUTCOME_CANCELLED
    await nothing_in_work(gateway, redis)


async def test_a_deferred_request_that_is_cancelled_is_final(gateway: Gateway) -> None:
    inside = [await gateway.submit(TENANT, asked(), Deadline.after(20)) for _ in range(2)]
    request = asked(allow_deferral=True)
    await gateway.submit(TENANT, request, Deadline.after(20))
    assert await gateway.cancel(TENANT, request.request_id) == common_pb2.OUTCOME_CANCELLED
    final = await gateway.lookup(TENANT, request.request_id)
    assert final is not None
    assert final.error.reason == "CANCELLED"
    for running in inside:
        running.cancel()


async def test_a_repeat_attaches_to_a_request_that_was_taken_over(redis: Redis, gateway: Gateway) -> None:
    request = asked()
    first = await gateway.submit(TENANT, request, Deadline.after(20))
    key = f"stagemesh:ledger:request:{TENANT.tenant_id}:{request.request_id}"
    stored = gateway_pb2.InferenceRequest.FromString((await redis.hgetall(key))[b"payload"])
    payload_hash = await redis.hget(key, "payload_hash")
    first.cancel()
    await first.final()
    await redis.flushall()
    silent = Ledger(redis, owner="another", lease_s=0.05, outcome_ttl_s=60)
    await silent.begin(TENANT.tenant_id, stored, payload_hash, deadline_unix_s=2e9)  # type: ignore[arg-type]

    async def is_taken_over() -> bool:
        return bool(gateway.working_on())

    await until(is_taken_over, "not taken over")
    repeat = await gateway.submit(TENANT, request, Deadline.after(20))
    assert not repeat.done
    assert await gateway.cancel(TENANT, request.request_id) == common_pb2.OUTCOME_CANCELLED


async def test_a_request_that_ran_without_the_ledger_is_not_run_again_when_it_is_back(
    server: Valkey, redis: Redis, gateway: Gateway
) -> None:
    with paused(server):
        running = await gateway.submit(TENANT, gateway_pb2.InferenceRequest(prompt="p"), Deadline.after(0.6))
        async with asyncio.timeout(5):
            final = await running.final()
    assert final.outcome == common_pb2.OUTCOME_EXPIRED

    async def is_stored() -> bool:
        return await redis.hget(f"stagemesh:ledger:request:t:{running.request_id}", "state") == b"final"

    await until(is_stored, "the outcome was not stored")
    assert not await redis.zcard(LEASES)


async def test_the_gauges_show_what_runs_and_what_waits(gateway: Gateway) -> None:
    assert num_running() == 0
    inside = [await gateway.submit(TENANT, asked(), Deadline.after(20)) for _ in range(2)]

    async def both_show() -> bool:
        waiting = REGISTRY.get_sample_value("stagemesh_requests_waiting", {"route": "chat"})
        return num_running() == 1 and waiting == 1

    await until(both_show, "the gauges do not show the requests")
    for running in inside:
        running.cancel()
        await running.final()

    async def are_zero() -> bool:
        return num_running() == 0

    await until(are_zero, "the gauge still shows requests")


async def test_without_room_a_request_is_refused(gateway: Gateway) -> None:
    inside = [await gateway.submit(TENANT, asked(), Deadline.after(20)) for _ in range(2)]
    with pytest.raises(StagemeshError) as caught:
        await gateway.submit(TENANT, asked(), Deadline.after(20))
    assert caught.value.reason == "QUEUE_FULL"
    for running in inside:
        running.cancel()


async def test_a_plain_request_is_worked_on_while_the_ledger_is_asked_but_ends_after_it(
    server: Valkey, redis: Redis, gateway: Gateway
) -> None:
    before = num_running() or 0.0
    with paused(server):
        caller = asyncio.create_task(
            gateway.submit(TENANT, gateway_pb2.InferenceRequest(prompt="p"), Deadline.after(20))
        )

        async def is_worked_on() -> bool:
            return (num_running() or 0.0) > before

        await until(is_worked_on, "no work before the ledger has answered")
        assert not caller.done()
        [(tenant_id, request_id)] = gateway.working_on()
        gateway.cancel_locally(tenant_id, request_id)
    running = await caller
    assert (await running.final()).outcome == common_pb2.OUTCOME_CANCELLED
    entry = await gateway.lookup(TENANT, request_id)
    assert entry is not None
    assert entry.outcome == common_pb2.OUTCOME_CANCELLED
    await nothing_in_work(gateway, redis)


async def test_a_tenant_above_its_rate_is_refused_with_a_time_to_retry_and_may_defer(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards, tenant = gateway._runner.guards, Tenant("greedy")
    now_s = time.monotonic()
    monkeypatch.setattr(guards.rates, "_clock", lambda: now_s)  # its bucket does not fill meanwhile
    while guards.rates.refusal(tenant.tenant_id) is None:
        pass
    with pytest.raises(StagemeshError, match="RATE_LIMITED") as refused:
        await gateway.submit(tenant, asked(), Deadline.after(20))
    assert refused.value.retry_after_ms > 0
    running = await gateway.submit(tenant, asked(allow_deferral=True), Deadline.after(20))
    assert [event.queued.deferred for event in running._events] == [True]
    running.cancel()


async def test_the_first_event_comes_while_no_engine_is_up_and_the_place_in_the_queue_with_an_estimate(
    gateway: Gateway,
) -> None:
    first = await gateway.submit(TENANT, asked(), Deadline.after(20))
    second = await gateway.submit(TENANT, asked(), Deadline.after(20))
    async with aclosing(first.events()) as events:
        assert (await anext(events)).queued.position == 0
    async with aclosing(second.events()) as events:
        places = [(await anext(events)).queued for _ in range(2)]
    assert [place.position for place in places] == [0, 1]
    assert places[1].estimated_wait_ms > 0
    for running in (first, second):
        running.cancel()


async def test_work_sends_its_first_call_before_the_ledger_is_written_to_and_the_caller_hears_after_both(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, begin = list[str](), Ledger.begin

    async def send() -> None:
        done.append("call sent")

    async def run(*_: object) -> None:
        call = asyncio.create_task(send())  # as gRPC makes a call
        await call
        await asyncio.Event().wait()

    async def write(ledger: Ledger, *args: object) -> object:
        done.append("ledger asked")
        answer = await begin(ledger, *args)  # type: ignore[arg-type]
        done.append("ledger knows")
        return answer

    monkeypatch.setattr(pipeline, "run", run)
    monkeypatch.setattr(Ledger, "begin", write)
    request = gateway_pb2.InferenceRequest(prompt="p")
    running = await gateway.submit(TENANT, request, Deadline.after(20))
    assert done == ["call sent", "ledger asked", "ledger knows"]
    running.cancel()


async def test_a_turn_that_would_come_after_the_deadline_is_refused_at_once(gateway: Gateway) -> None:
    held = await gateway.submit(TENANT, asked(), Deadline.after(20))
    queue = gateway._runner.queues["chat"]
    queue._num_runs, queue._mean_run_s = 100, 60.0  # as after many long runs
    with pytest.raises(StagemeshError) as caught:
        await gateway.submit(TENANT, asked(), Deadline.after(20))
    assert caught.value.reason == "DEADLINE_UNREACHABLE"
    assert caught.value.retry_after_ms > 30_000
    held.cancel()
