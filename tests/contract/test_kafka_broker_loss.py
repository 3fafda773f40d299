"""Producer, relay and consumer over the embedded broker, and over its death."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from events_support import Broker, connected, eventually, free_port, producing, running_broker, running_valkey

from stagemesh.api.events.v1 import events_pb2
from stagemesh.embedded import kafka
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import InvalidRequest, Unavailable
from stagemesh.runtime.kafka_client import EventProducer
from stagemesh.runtime.kafka_consumer import ConsumerConfig, EventConsumer, GiveUp, Handler, TryLater
from stagemesh.runtime.outbox import Entry, Outbox
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.relay import Relay, RelayConfig
from stagemesh.runtime.topics import DEFERRED, MAX_RECORD_BYTES

FAST = RelayConfig(republish_after_s=1.0, poll_interval_s=0.05, window=64)


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
async def producer(broker: Broker) -> AsyncIterator[EventProducer]:
    async with producing(broker.bootstrap) as started:
        yield started


@pytest.fixture
def outbox(redis: Redis) -> Outbox:
    """On a topic of its own, since the broker is shared."""
    return Outbox(redis, DEFERRED, ttl_s=60, max_entries=1000, prefix=f"{uuid.uuid4().hex[:8]}.")


async def never_give_up(envelope: events_pb2.Envelope, attempts: int, error: Exception) -> None:
    raise AssertionError(f"{envelope.request_id} given up after {attempts}: {error!r}")


def consume(
    broker: Broker,
    outbox: Outbox,
    redis: Redis,
    handle: Handler,
    *,
    give_up: GiveUp = never_give_up,
    config: ConsumerConfig | None = None,
    group_protocol: str = "consumer",
) -> EventConsumer:
    """With the newer group protocol by default: the mock broker lets members of the classic one wait for 3 s."""
    consumer = EventConsumer(
        bootstrap=broker.bootstrap,
        group=f"group.{outbox.topic_name}",
        topics=[outbox.topic_name],
        redis=redis,
        handle=handle,
        give_up=give_up,
        config=config or ConsumerConfig(first_backoff_s=0.01, max_backoff_s=0.1),
        settings={"group.protocol": group_protocol},
    )
    consumer.start()
    return consumer


def event(request_id: str = "") -> events_pb2.Envelope:
    envelope = new_envelope(DEFERRED, tenant_id="acme", request_id=request_id or str(uuid.uuid4()))
    envelope.deferred.priority = 0
    return envelope


async def send(producer: EventProducer, outbox: Outbox, *request_ids: str) -> None:
    for request_id in request_ids:
        await producer.send(outbox.topic_name, request_id, event(request_id).SerializeToString())


async def test_200_events_take_effect_exactly_once_though_the_broker_is_killed_in_the_middle(
    redis: Redis, outbox: Outbox
) -> None:
    effects: Counter[str] = Counter()

    async def handle(envelope: events_pb2.Envelope, _attempt: int) -> None:
        # As the ledger does: the first to make the transition has the effect, and confirms it.
        if await redis.set(f"effect:{envelope.request_id}", 1, nx=True, ex=60):
            effects[envelope.request_id] += 1
        await outbox.remove(envelope.tenant_id, envelope.request_id)

    with running_broker() as broker:
        async with producing(broker.bootstrap) as producer:
            relays = [Relay(outbox, producer, FAST) for _ in range(2)]
            for relay in relays:
                relay.start()
            consumer = consume(broker, outbox, redis, handle, group_protocol="classic")
            request_ids = [str(uuid.uuid4()) for _ in range(200)]
            for request_id in request_ids[:100]:
                assert await outbox.put(event(request_id))
            await eventually(lambda: _true(len(effects) >= 50), "half of the first hundred are done")
            broker.kill()
            for request_id in request_ids[100:]:
                assert await outbox.put(event(request_id))
            await asyncio.sleep(0.2)  # the relays meet the dead broker
            broker.start()
            await eventually(lambda: _is_empty(outbox), "all events are confirmed", within_s=60)
            for relay in relays:
                await relay.stop()
            await consumer.stop(5.0)
    assert effects == Counter(request_ids)


async def test_a_consumer_that_had_paused_goes_on_after_the_broker_came_back(redis: Redis, outbox: Outbox) -> None:
    release = asyncio.Event()
    seen: set[str] = set()

    async def handle(envelope: events_pb2.Envelope, _attempt: int) -> None:
        await release.wait()
        seen.add(envelope.request_id)
        await outbox.remove(envelope.tenant_id, envelope.request_id)

    with running_broker() as broker:
        async with producing(broker.bootstrap) as producer:
            relay = Relay(outbox, producer, FAST)
            relay.start()
            config = ConsumerConfig(max_in_flight=1, stall_s=0.05)  # pauses while its one handler is busy
            consumer = consume(broker, outbox, redis, handle, config=config, group_protocol="classic")
            for request_id in "abcd":
                assert await outbox.put(event(request_id))
            await eventually(lambda: _true(consumer.num_in_flight == 1), "the first is being handled")
            broker.kill()
            broker.start()
            await eventually(lambda: _true(consumer.counts.assignments == 2), "the partitions are assigned anew")
            release.set()
            await eventually(lambda: _is_empty(outbox), "all events are confirmed")
            await relay.stop()
            await consumer.stop(5.0)
    assert seen == {*"abcd"}


async def _true(value: bool) -> bool:
    return value


async def _is_empty(outbox: Outbox) -> bool:
    return await outbox.count() == 0


async def test_a_restarted_consumer_continues_after_the_last_effect(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    seen: list[str] = []

    async def handle(envelope: events_pb2.Envelope, _attempt: int) -> None:
        seen.append(envelope.request_id)

    await send(producer, outbox, "a", "b")
    first = consume(broker, outbox, redis, handle)
    await eventually(lambda: _true(len(seen) == 2), "both are handled")
    await first.stop(5.0)
    await send(producer, outbox, "c")
    second = consume(broker, outbox, redis, handle)
    await eventually(lambda: _true("c" in seen), "the third is handled")
    await second.stop(5.0)
    assert sorted(seen) == ["a", "b", "c"]


async def test_an_event_whose_effect_did_not_happen_comes_again_to_the_next_consumer(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    begun, done = asyncio.Event(), asyncio.Event()

    async def hang(_envelope: events_pb2.Envelope, _attempt: int) -> None:
        begun.set()
        await asyncio.sleep(60)

    async def handle(_envelope: events_pb2.Envelope, _attempt: int) -> None:
        done.set()

    await send(producer, outbox, "a")
    first = consume(broker, outbox, redis, hang)
    async with asyncio.timeout(30):
        await begun.wait()
    await first.stop(0.1)
    second = consume(broker, outbox, redis, handle)
    async with asyncio.timeout(30):
        await done.wait()
    await second.stop(5.0)


async def test_waiting_does_not_count_and_failures_do(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    calls: list[int] = []
    surrendered = asyncio.Event()

    async def handle(_envelope: events_pb2.Envelope, attempt: int) -> None:
        calls.append(attempt)
        if len(calls) <= 4:
            raise TryLater("ENGINE_AWAY")
        raise ValueError("poison")

    async def give_up(_envelope: events_pb2.Envelope, attempts: int, error: Exception) -> None:
        assert (attempts, str(error)) == (3, "poison")
        surrendered.set()

    await send(producer, outbox, "a")
    consumer = consume(broker, outbox, redis, handle, give_up=give_up)
    async with asyncio.timeout(30):
        await surrendered.wait()
    await consumer.stop(5.0)
    assert calls == [1, 1, 1, 1, 1, 2, 3]
    assert (consumer.counts.given_up, consumer.counts.handled) == (1, 0)


async def test_poison_does_not_hold_up_the_events_behind_it(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    seen: set[str] = set()

    async def handle(envelope: events_pb2.Envelope, _attempt: int) -> None:
        if envelope.request_id == "stuck":
            raise TryLater("AWAY")
        seen.add(envelope.request_id)

    await producer.send(outbox.topic_name, "x", b"\xff no envelope")
    await send(producer, outbox, "stuck", *"abcdefgh")
    consumer = consume(broker, outbox, redis, handle)
    await eventually(lambda: _true(len(seen) == 8), "all others are handled")
    await consumer.stop(0.1)
    assert consumer.counts.skipped == 1


async def test_at_most_the_configured_number_of_events_is_in_work(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    running, most, done = 0, 0, 0

    async def handle(_envelope: events_pb2.Envelope, _attempt: int) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.03)
        running -= 1
        done += 1

    await send(producer, outbox, *(str(i) for i in range(8)))
    config = ConsumerConfig(max_in_flight=3, stall_s=0.01)  # pauses its partitions all the time
    consumer = consume(broker, outbox, redis, handle, config=config)
    await eventually(lambda: _true(done == 8), "all are handled")
    await consumer.stop(5.0)
    assert most == 3


async def test_the_same_request_is_never_handled_twice_at_a_time(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    calls, release = 0, asyncio.Event()

    async def handle(_envelope: events_pb2.Envelope, _attempt: int) -> None:
        nonlocal calls
        calls += 1
        await release.wait()

    await send(producer, outbox, "a", "a", "a")
    consumer = consume(broker, outbox, redis, handle)
    await eventually(lambda: _true(consumer.counts.duplicates == 2), "the repeats are recognized")
    release.set()
    await eventually(lambda: _true(consumer.num_in_flight == 0), "all end")
    await consumer.stop(5.0)
    assert calls == 1


async def test_a_large_body_is_fetched_from_redis_and_a_vanished_one_is_skipped(
    redis: Redis, outbox: Outbox, broker: Broker, producer: EventProducer
) -> None:
    received: list[events_pb2.Envelope] = []

    async def handle(envelope: events_pb2.Envelope, _attempt: int) -> None:
        received.append(envelope)

    gone = event("gone")
    gone.body_key = "outbox:nothing"
    await producer.send(outbox.topic_name, "gone", gone.SerializeToString())
    large = event("large")
    large.answer.request.prompt = "x" * (2 * MAX_RECORD_BYTES)
    await outbox.put(large)
    relay = Relay(outbox, producer, FAST)
    await relay.publish_due()
    consumer = consume(broker, outbox, redis, handle)
    await eventually(lambda: _true(len(received) == 1 and consumer.counts.skipped == 1), "both are seen")
    await consumer.stop(5.0)
    assert received == [large]


async def test_a_relay_settles_what_has_expired(redis: Redis, producer: EventProducer) -> None:
    outbox = Outbox(redis, DEFERRED, ttl_s=0.0, max_entries=10, prefix=f"{uuid.uuid4().hex[:8]}.")
    settled: list[str] = []

    async def settle(entry: Entry) -> None:
        settled.append(entry.request_id)

    await outbox.put(event("a"))
    await asyncio.sleep(0.002)
    relay = Relay(outbox, producer, FAST, expired=settle)
    await relay.publish_due()
    assert (settled, await outbox.count(), relay.counts.expired) == (["a"], 0, 1)


async def test_without_a_broker_sending_fails_within_its_deadline_and_the_entry_stays_due(redis: Redis) -> None:
    outbox = Outbox(redis, DEFERRED, ttl_s=60, max_entries=10, prefix=f"{uuid.uuid4().hex[:8]}.")
    producer = EventProducer(f"127.0.0.1:{free_port()}", delivery_timeout_s=0.3)
    await outbox.put(event("a"))
    relay = Relay(outbox, producer, FAST)
    with pytest.raises(Unavailable, match="KAFKA_UNAVAILABLE"):
        await relay.publish_due()
    (entry,) = await outbox.claim_due(10, 60.0)
    assert (entry.request_id, entry.tries, relay.counts.failed) == ("a", 1, 1)
    await producer.close(0.1)


async def test_an_event_over_the_limit_is_refused(producer: EventProducer, outbox: Outbox) -> None:
    with pytest.raises(InvalidRequest, match="EVENT_TOO_LARGE"):
        await producer.send(outbox.topic_name, "a", b"x" * (2 * MAX_RECORD_BYTES))


@pytest.mark.skipif(sys.platform != "linux", reason="macOS polls its parent, which takes longer")
def test_the_broker_ends_with_its_parent() -> None:
    command = kafka.command(free_port())
    starter = f"import subprocess, sys; p = subprocess.Popen({command!r}); print(p.pid, flush=True); sys.stdin.read()"
    parent = subprocess.Popen([sys.executable, "-c", starter], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    lines = [parent.stdout.readline(), parent.stdout.readline()]
    assert any("ready" in line for line in lines)
    parent.kill()
    # The broker holds the other end of the pipe too, so the pipe ends when it does.
    parent.communicate(timeout=20)


def test_a_taken_port_is_said() -> None:
    with running_broker() as broker:
        second = subprocess.run(kafka.command(broker.port), capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 78
    assert f"cannot listen on 127.0.0.1:{broker.port}" in second.stderr
