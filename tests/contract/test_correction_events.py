"""The loop's events: from a gateway's publisher over outbox, broker and consumer into the store of cases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from services.corrector.training.collect import Collected, collect
from services.corrector.training.store import CaseStore
from services.gateway.corrections import CorrectionPublisher
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.runtime import tenants
from stagemesh.runtime.kafka_client import EventProducer
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.relay import Relay, RelayConfig
from stagemesh.runtime.topics import CORRECTIONS, MAX_RECORD_BYTES
from tests.contract.events_support import (
    Broker,
    connected,
    eventually,
    make_topic,
    producing,
    running_broker,
    running_valkey,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as started:
        make_topic(started.bootstrap, CORRECTIONS.name(""))
        yield started


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    with running_valkey() as url:
        yield url


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    async with connected(valkey_url) as client:
        yield client


@pytest.fixture
async def producer(broker: Broker) -> AsyncIterator[EventProducer]:
    async with producing(broker.bootstrap) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CaseStore]:
    opened = CaseStore(tmp_path / "corrections.sqlite")
    yield opened
    opened.close()


def pair(tenant_id: str, total: int) -> tuple[corrector_pb2.CorrectRequest, corrector_pb2.CorrectResponse]:
    request = corrector_pb2.CorrectRequest(
        tenant_id=tenant_id, text='{"total": "x"}', source_text=f"the total is {total}"
    )
    request.constraint.json_schema = '{"type": "object"}'
    value = f'{{"total": {total}}}'
    return request, corrector_pb2.CorrectResponse(text=value, value=value, valid=True, certain=True)


def events(fate: str) -> float:
    return REGISTRY.get_sample_value("stagemesh_correction_events_total", {"fate": fate}) or 0.0


async def published(redis: Redis, producer: EventProducer, publisher: CorrectionPublisher, outbox: Outbox) -> None:
    await publisher.close(5.0)
    relay = Relay(outbox, producer, RelayConfig(is_done_when_published=True, poll_interval_s=0.05))
    relay.start()

    async def empty() -> bool:
        return await outbox.count() == 0

    await eventually(empty, "the outbox is published")
    await relay.stop()


async def test_shared_corrections_reach_the_store_and_erased_ones_do_not(
    redis: Redis, broker: Broker, producer: EventProducer, store: CaseStore, tmp_path: Path
) -> None:
    await tenants.create(redis, "acme")
    await tenants.create(redis, "quiet")
    await tenants.share_corrections(redis, "acme", share=True)
    outbox = Outbox(redis, CORRECTIONS, ttl_s=600, max_entries=100)
    publisher = CorrectionPublisher(outbox, lambda: tenants.sharing_corrections(redis))
    not_shared, too_large = events("not-shared"), events("too-large")
    publisher.offer_pair(*pair("acme", 1), user_id="ann")
    publisher.offer_pair(*pair("acme", 2), user_id="bob")
    publisher.offer_pair(*pair("quiet", 3), user_id="eve")
    large, correction = pair("acme", 4)
    large.text = "x" * MAX_RECORD_BYTES
    publisher.offer_pair(large, correction)
    await publisher.erase("acme", user_id="bob")
    await published(redis, producer, publisher, outbox)
    assert (events("not-shared"), events("too-large")) == (not_shared + 1, too_large + 1)

    async def collected() -> Collected:
        return await collect(bootstrap=broker.bootstrap, settings=None, prefix="", redis=redis, store=store, idle_s=2.0)

    await collected()
    [(source, value, _)] = store.certain("acme", held_out=False) + store.certain("acme", held_out=True)
    assert (source, value) == ("the total is 1", {"total": 1})
    await tenants.share_corrections(redis, "acme", share=False)
    assert store.keep_only(await tenants.sharing_corrections(redis)) == ["acme"]
    assert store.tenants() == []


async def test_a_revoked_tenant_shares_no_longer(redis: Redis) -> None:
    await tenants.create(redis, "acme")
    await tenants.share_corrections(redis, "acme", share=True)
    await tenants.revoke(redis, "acme")
    assert await tenants.sharing_corrections(redis) == frozenset()
