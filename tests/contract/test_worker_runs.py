"""The worker as a process, over real servers and a gateway that keeps a ledger in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import grpc
import pytest
from confluent_kafka import Consumer
from events_support import (
    Broker,
    connected,
    eventually,
    free_port,
    make_topic,
    producing,
    running_broker,
    running_valkey,
    serving,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import Exhausted, Internal, NotFound, StagemeshError, to_status
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.kafka_client import client_settings
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.relay import Relay, RelayConfig
from stagemesh.runtime.topics import DEFERRED, DEFERRED_DEAD

FAST = RelayConfig(republish_after_s=1.0, poll_interval_s=0.05)
COMPLETE, DEAD = common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEAD_LETTERED


class LedgerGateway(gateway_pb2_grpc.GatewayServiceServicer):
    """What the worker needs of a gateway: one final transition per request, then the outbox entry goes."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.known: set[str] = set()
        self.finals: dict[str, common_pb2.Outcome.ValueType] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.tokens: set[str] = set()
        self.tenants: set[str] = set()
        self.failures: list[StagemeshError] = []
        """Raised by the next runs, one each."""
        self.always: StagemeshError | None = None
        self.running = self.most_running = 0
        self.run_s = 0.01

    def register(self, server: grpc.aio.Server) -> None:
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(self, server)

    async def Complete(self, request: gateway_pb2.CompleteRequest, context: Context) -> gateway_pb2.CompleteResponse:
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        request_id, kind = request.request.request_id, metadata["x-deferred-run"]
        self.tokens.add(metadata["x-mesh-token"])
        self.tenants.add(metadata["x-tenant-id"])
        self.calls[(request_id, kind)] += 1
        try:
            outcome = await (self._give_up(request_id) if kind == "give-up" else self._run(request_id))
        except StagemeshError as error:
            await context.abort_with_status(rpc_status.to_status(to_status(error)))
        await self._outbox.remove("acme", request_id)
        return gateway_pb2.CompleteResponse(final=gateway_pb2.Final(request_id=request_id, outcome=outcome))

    async def _run(self, request_id: str) -> common_pb2.Outcome.ValueType:
        if request_id in self.finals:
            return self.finals[request_id]
        if request_id not in self.known:
            await self._outbox.remove("acme", request_id)
            raise NotFound("REQUEST_NOT_FOUND", "unknown")
        if error := self.failures.pop(0) if self.failures else self.always:
            raise error
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.run_s)
        finally:
            self.running -= 1
        return self.finals.setdefault(request_id, COMPLETE)

    async def _give_up(self, request_id: str) -> common_pb2.Outcome.ValueType:
        return self.finals.setdefault(request_id, DEAD)


class World:
    """One mesh around a worker."""

    def __init__(self, prefix: str, outbox: Outbox, gateway: LedgerGateway, environment: dict[str, str]) -> None:
        self.prefix, self.outbox, self.gateway, self.environment = prefix, outbox, gateway, environment

    async def defer(self, *request_ids: str) -> None:
        for request_id in request_ids:
            envelope = new_envelope(DEFERRED, tenant_id="acme", request_id=request_id)
            envelope.deferred.priority = 0
            self.gateway.known.add(request_id)
            assert await self.outbox.put(envelope)

    async def all_confirmed(self) -> None:
        async def is_empty() -> bool:
            return await self.outbox.count() == 0

        await eventually(is_empty, "all deferred requests are confirmed", within_s=60)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with running_valkey() as url:
        yield url


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as started:
        yield started


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with connected(redis_url) as client:
        yield client


@pytest.fixture
async def world(redis: Redis, redis_url: str, broker: Broker) -> AsyncIterator[World]:
    prefix = f"{uuid.uuid4().hex[:8]}."
    outbox = Outbox(redis, DEFERRED, ttl_s=600, max_entries=1000, prefix=prefix)
    make_topic(broker.bootstrap, outbox.topic_name)
    gateway = LedgerGateway(outbox)
    async with serving(gateway.register) as address, producing(broker.bootstrap) as producer:
        relay = Relay(outbox, producer, FAST)
        relay.start()
        environment = {
            **os.environ,
            "STAGEMESH_ADDRESSES__GATEWAY": address,
            "STAGEMESH_LEDGER_URL": redis_url,
            "STAGEMESH_KAFKA_BOOTSTRAP": broker.bootstrap,
            "STAGEMESH_KAFKA_TOPIC_PREFIX": prefix,
            "STAGEMESH_KAFKA_SETTINGS": '{"group.protocol": consumer, "auto.commit.interval.ms": 50}',
            "STAGEMESH_MESH_TOKEN": "mesh-secret",
            "STAGEMESH_WORKER__MAX_ATTEMPTS": "3",
            "STAGEMESH_WORKER__FIRST_BACKOFF_S": "0.01",
            "STAGEMESH_WORKER__MAX_BACKOFF_S": "0.1",
        }
        yield World(prefix, outbox, gateway, environment)
        await relay.stop()


@contextmanager
def process(world: World, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A worker process; gives it and the address of its health service."""
    address = f"127.0.0.1:{free_port()}"
    own = {f"STAGEMESH_WORKER__{key.upper()}": value for key, value in {"listen": address, **settings}.items()}
    started = subprocess.Popen([sys.executable, "-m", "services.worker"], env={**world.environment, **own})
    try:
        yield started, address
    finally:
        started.kill()
        started.wait()


@asynccontextmanager
async def working(world: World, **settings: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    with process(world, **settings) as (started, _):
        yield started


async def test_deferred_requests_are_run_once_each_with_the_mesh_token_for_their_tenant(world: World) -> None:
    requests = [str(uuid.uuid4()) for _ in range(20)]
    await world.defer(*requests)
    async with working(world, max_in_flight="3"):
        await world.all_confirmed()
    assert world.gateway.finals == dict.fromkeys(requests, COMPLETE)
    assert (world.gateway.tokens, world.gateway.tenants) == ({"mesh-secret"}, {"acme"})
    assert world.gateway.most_running <= 3


async def test_a_killed_worker_loses_nothing_and_repeats_no_outcome(world: World) -> None:
    # With the classic protocol, as users run it: its dead members are missed after 6 s.
    world.environment["STAGEMESH_KAFKA_SETTINGS"] = "{auto.commit.interval.ms: 50}"
    world.gateway.run_s = 0.1
    requests = [str(uuid.uuid4()) for _ in range(40)]
    await world.defer(*requests)

    async def some_done() -> bool:
        return len(world.gateway.finals) >= 10

    async with working(world) as worker:
        await eventually(some_done, "a quarter is done")
        worker.send_signal(signal.SIGKILL)
    async with working(world):
        await world.all_confirmed()
    assert world.gateway.finals == dict.fromkeys(requests, COMPLETE)


async def test_lack_of_capacity_is_waited_for_and_does_not_count_as_an_attempt(world: World) -> None:
    busy = Exhausted("QUEUE_FULL", "later", retry_after_ms=20)
    world.gateway.failures = [busy] * 10
    await world.defer("a")
    async with working(world):
        await world.all_confirmed()
    assert world.gateway.finals == {"a": COMPLETE}
    assert world.gateway.calls[("a", "1")] >= 11


async def test_after_its_attempts_a_request_is_dead_lettered_in_the_ledger_and_on_the_topic(
    world: World, broker: Broker
) -> None:
    world.gateway.always = Internal("ENGINE_BROKE", "broken")
    await world.defer("a")
    async with working(world):
        await world.all_confirmed()
        letter = await asyncio.to_thread(read_one, broker, DEFERRED_DEAD.name(world.prefix))
    assert world.gateway.finals == {"a": DEAD}
    assert world.gateway.calls[("a", "1")] >= 3  # its event may have been published twice, and found the outcome then
    assert (letter.request_id, letter.tenant_id, letter.dead_letter.attempts) == ("a", "acme", 3)
    assert letter.dead_letter.error.reason == "ENGINE_BROKE"


async def test_when_the_budget_of_waiting_is_used_up_refusals_count(world: World) -> None:
    world.gateway.always = Exhausted("QUEUE_FULL", "later", retry_after_ms=1)
    await world.defer("a")
    async with working(world, wait_budget_s="0.2"):
        await world.all_confirmed()
    assert world.gateway.finals == {"a": DEAD}


async def test_an_unknown_request_is_forgotten(world: World) -> None:
    await world.defer("a")
    world.gateway.known.clear()
    async with working(world):
        await world.all_confirmed()
    assert world.gateway.calls == {("a", "1"): 1}


async def test_sigterm_lets_running_requests_end_and_exits_with_0(world: World) -> None:
    world.gateway.run_s = 1.0
    with process(world) as (worker, address):
        async with grpc.aio.insecure_channel(address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            check = health_pb2.HealthCheckRequest(service="stagemesh.worker")

            async def is_ready() -> bool:
                try:
                    return (await health.Check(check, timeout=1)).status == health_pb2.HealthCheckResponse.SERVING
                except grpc.RpcError:
                    return False

            await eventually(is_ready, "the worker is ready")

        async def is_running() -> bool:
            return world.gateway.running == 1

        await world.defer("a")
        await eventually(is_running, "the request runs")
        worker.terminate()
        assert await asyncio.to_thread(worker.wait, 20) == 0
    assert world.gateway.finals == {"a": COMPLETE}


def test_without_a_broker_configured_the_worker_says_so_and_exits_with_78() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STAGEMESH_")}
    ended = subprocess.run(
        [sys.executable, "-m", "services.worker"],
        env={**environment, "STAGEMESH_LEDGER_URL": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, "kafka_bootstrap" in ended.stderr) == (78, True)


def read_one(broker: Broker, topic: str) -> events_pb2.Envelope:
    consumer = Consumer({**client_settings(broker.bootstrap), "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None, f"nothing on {topic}"
            if message.error() is None:
                return events_pb2.Envelope.FromString(message.value())
    finally:
        consumer.close()
