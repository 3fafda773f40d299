"""The outbox on a real Redis server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from events_support import connected, running_valkey

from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import Exhausted, InvalidRequest, Unavailable
from stagemesh.runtime.outbox import Outbox, resolve
from stagemesh.runtime.redis_client import Redis, connect
from stagemesh.runtime.topics import DEFERRED, MAX_RECORD_BYTES


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with running_valkey() as url:
        yield url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with connected(redis_url) as client:
        yield client


def make_outbox(redis: Redis, *, ttl_s: float = 60, max_entries: int = 100) -> Outbox:
    return Outbox(redis, DEFERRED, ttl_s=ttl_s, max_entries=max_entries)


def event(request_id: str = "", *, tenant_id: str = "acme", prompt: str = "") -> events_pb2.Envelope:
    envelope = new_envelope(DEFERRED, tenant_id=tenant_id, request_id=request_id or str(uuid.uuid4()))
    if prompt:
        envelope.answer.request.prompt = prompt
    else:
        envelope.deferred.priority = 0
    return envelope


async def claim_ids(outbox: Outbox, limit: int = 100, republish_after_s: float = 60, window: int = 100) -> list[str]:
    return [entry.request_id for entry in await outbox.claim_due(limit, republish_after_s, window=window)]


async def test_what_was_put_is_there_until_it_is_removed(redis: Redis) -> None:
    outbox, envelope = make_outbox(redis), event("a")
    assert await outbox.put(envelope)
    assert await outbox.get("acme", "a") == envelope
    assert await outbox.count() == 1
    assert await outbox.remove("acme", "a")
    assert not await outbox.remove("acme", "a")
    assert await outbox.get("acme", "a") is None
    assert await redis.keys() == []


async def test_a_repeated_put_changes_nothing(redis: Redis) -> None:
    outbox, first = make_outbox(redis), event("a")
    await outbox.put(first)
    await claim_ids(outbox)
    assert await outbox.put(event("a"), priority=5)
    assert await outbox.get("acme", "a") == first
    assert await outbox.count() == 1
    assert await claim_ids(outbox) == []


async def test_two_tenants_with_the_same_request_id_do_not_meet(redis: Redis) -> None:
    outbox = make_outbox(redis)
    await outbox.put(event("a", tenant_id="acme"))
    await outbox.put(event("a", tenant_id="globex"))
    assert await outbox.count() == 2
    assert await outbox.remove("globex", "a")
    assert await outbox.get("acme", "a") is not None


async def test_a_full_outbox_refuses_and_keeps_what_it_has(redis: Redis) -> None:
    outbox = make_outbox(redis, max_entries=2)
    assert [await outbox.put(event(name)) for name in "abc"] == [True, True, False]
    assert not await outbox.has_room()
    assert await outbox.put(event("a"))
    await outbox.remove("acme", "a")
    assert await outbox.put(event("c"))


async def test_claims_come_by_priority_and_then_by_age(redis: Redis) -> None:
    outbox = make_outbox(redis)
    for name, priority in (("old", 0), ("low", -1), ("high", 1), ("new", 0)):
        await outbox.put(event(name), priority=priority)
        await asyncio.sleep(0.002)
    assert [entry.request_id for entry in await outbox.list(0, 10)] == ["high", "old", "new", "low"]
    assert [entry.request_id for entry in await outbox.list(1, 2)] == ["old", "new"]
    assert await claim_ids(outbox, limit=3) == ["high", "old", "new"]
    assert await claim_ids(outbox) == ["low"]


async def test_concurrent_claims_never_share_an_entry(redis: Redis) -> None:
    outbox = make_outbox(redis)
    await asyncio.gather(*(outbox.put(event(str(i))) for i in range(60)))
    claims = await asyncio.gather(*(claim_ids(outbox, limit=7) for _ in range(12)))
    claimed = [request_id for claim in claims for request_id in claim]
    assert sorted(claimed) == sorted(str(i) for i in range(60))


async def test_an_unconfirmed_entry_is_claimed_again_and_counts_its_tries(redis: Redis) -> None:
    outbox = make_outbox(redis)
    await outbox.put(event("a"))
    assert [entry.tries for entry in await outbox.claim_due(10, 0.0)] == [1]
    assert [entry.tries for entry in await outbox.claim_due(10, 60.0)] == [2]
    assert await outbox.claim_due(10, 60.0) == []


async def test_an_entry_that_could_not_be_published_is_due_at_once(redis: Redis) -> None:
    outbox = make_outbox(redis)
    await outbox.put(event("a"))
    (entry,) = await outbox.claim_due(10, 60.0)
    await outbox.unclaim(entry)
    assert [again.tries for again in await outbox.claim_due(10, 60.0)] == [1]


async def test_the_window_bounds_what_is_published_and_unconfirmed(redis: Redis) -> None:
    outbox = make_outbox(redis)
    for name in "abcd":
        await outbox.put(event(name))
        await asyncio.sleep(0.002)
    assert await claim_ids(outbox, window=2) == ["a", "b"]
    assert await claim_ids(outbox, window=2) == []
    await outbox.put(event("urgent"), priority=9)
    await outbox.remove("acme", "a")
    assert await claim_ids(outbox, window=2) == ["urgent"]


async def test_a_large_body_stays_in_redis_and_its_record_refers_to_it(redis: Redis) -> None:
    outbox, envelope = make_outbox(redis), event("a", prompt="x" * (2 * MAX_RECORD_BYTES))
    await outbox.put(envelope)
    (entry,) = await outbox.claim_due(10, 60.0)
    record = events_pb2.Envelope.FromString(entry.record)
    assert len(entry.record) < 1000
    assert (record.request_id, record.event_id) == ("a", envelope.event_id)
    assert await resolve(redis, record) == envelope
    assert await outbox.get("acme", "a") == envelope
    await outbox.remove("acme", "a")
    assert await resolve(redis, record) is None
    assert await redis.keys() == []


async def test_every_key_has_a_time_to_live(redis: Redis) -> None:
    outbox = make_outbox(redis)
    await outbox.put(event("a"))
    await outbox.put(event("b", prompt="x" * (2 * MAX_RECORD_BYTES)))
    await outbox.claim_due(1, 60.0)
    await outbox.put(event("c"))
    keys = await redis.keys()
    assert len(keys) == 7
    assert all([await redis.pttl(key) > 0 for key in keys])


async def test_expired_entries_are_shown_until_they_are_settled(redis: Redis) -> None:
    outbox = make_outbox(redis, ttl_s=0.0)
    await outbox.put(event("a"))
    await asyncio.sleep(0.002)
    assert [entry.request_id for entry in await outbox.expired(10)] == ["a"]
    await outbox.remove("acme", "a")
    assert await outbox.expired(10) == []


async def test_a_put_in_a_transaction_happens_with_the_rest_or_not_at_all(redis: Redis) -> None:
    outbox = make_outbox(redis)
    async with redis.pipeline(transaction=True) as pipe:
        await outbox.put(event("a"), pipeline=pipe)
        pipe.set("state", "deferred")
        await pipe.reset()
    assert await redis.keys() == []
    async with redis.pipeline(transaction=True) as pipe:
        await outbox.put(event("a"), pipeline=pipe)
        pipe.set("state", "deferred", ex=60)
        assert await pipe.execute() == [1, True]
    assert await outbox.count() == 1
    async with redis.pipeline(transaction=True) as pipe:
        await outbox.remove("acme", "a", pipeline=pipe)
        assert await pipe.execute() == [1]
    assert await outbox.count() == 0


async def test_a_redis_without_memory_refuses_with_a_typed_error(redis: Redis) -> None:
    outbox = make_outbox(redis)
    before = (await redis.config_get("maxmemory"))["maxmemory"]
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(Exhausted, match="OUTBOX_FULL"):
            await outbox.put(event("a"))
    finally:
        await redis.config_set("maxmemory", before)


async def test_a_redis_that_is_away_is_a_typed_error_within_the_timeout() -> None:
    redis = connect("redis://127.0.0.1:1/0", connect_timeout_s=0.5)
    outbox = make_outbox(redis)
    for call in (outbox.put(event("a")), outbox.count(), outbox.get("acme", "a"), outbox.list(0, 1)):
        with pytest.raises(Unavailable, match="LEDGER_UNAVAILABLE"):
            await call
    await redis.aclose()


@pytest.mark.parametrize("priority", [-101, 101])
async def test_a_priority_out_of_range_is_refused(redis: Redis, priority: int) -> None:
    with pytest.raises(InvalidRequest, match="PRIORITY_OUT_OF_RANGE"):
        await make_outbox(redis).put(event("a"), priority=priority)


async def test_a_cancelled_task_ends_even_in_the_middle_of_a_command(redis: Redis) -> None:
    async def work() -> None:
        while True:
            await redis.eval("return 1", 0)

    for step in range(200):
        task = asyncio.create_task(work())
        await asyncio.sleep(step * 1e-5)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=5)
        assert done, "the cancellation was lost"
