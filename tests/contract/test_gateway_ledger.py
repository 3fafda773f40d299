"""The ledger over a real Valkey, also against a model: every request has one final outcome, made once."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quality_support import Valkey, running_valkey

from services.gateway.ledger import Begun, Claim, Entry, Ledger
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.redis_client import Redis, connect


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    folder: Path = tmp_path_factory.mktemp("ledger")
    with running_valkey(folder) as valkey:
        yield valkey


@pytest.fixture
async def redis(server: Valkey) -> AsyncIterator[Redis]:
    client = connect(server.url)
    yield client
    await client.aclose()


def ledger(redis: Redis, owner: str, lease_s: float = 60.0) -> Ledger:
    return Ledger(redis, owner=owner, lease_s=lease_s, outcome_ttl_s=60)


def request() -> gateway_pb2.InferenceRequest:
    return gateway_pb2.InferenceRequest(request_id=str(uuid.uuid4()), prompt="p")


def outcome(asked: gateway_pb2.InferenceRequest, kind: int = common_pb2.OUTCOME_COMPLETE) -> gateway_pb2.Final:
    return gateway_pb2.Final(request_id=asked.request_id, outcome=kind)  # type: ignore[arg-type]


def in_a_minute() -> float:
    return time.time() + 60


async def test_a_repeat_finds_the_running_request_and_then_its_outcome(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    assert (await book.begin("t", asked, b"h", in_a_minute()))[0] is Begun.NEW
    assert (await book.begin("t", asked, b"h", in_a_minute()))[0] is Begun.RUNNING
    assert await book.finish("t", outcome(asked))
    begun, final = await book.begin("t", asked, b"h", in_a_minute())
    assert begun is Begun.FINAL
    assert final is not None
    assert final.outcome == common_pb2.OUTCOME_COMPLETE


async def test_the_same_id_with_another_payload_is_a_mismatch(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    assert (await book.begin("t", asked, b"other", in_a_minute()))[0] is Begun.MISMATCH


async def test_two_tenants_may_use_the_same_id(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    assert (await book.begin("u", asked, b"other", in_a_minute()))[0] is Begun.NEW


async def test_of_two_final_transitions_only_the_first_counts(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    done = await asyncio.gather(*(book.finish("t", outcome(asked)) for _ in range(5)))
    assert sorted(done) == [False] * 4 + [True]


async def test_a_silent_owner_is_replaced_and_its_late_result_dropped(redis: Redis) -> None:
    first, second, asked = ledger(redis, "a", lease_s=0.05), ledger(redis, "b"), request()
    await first.begin("t", asked, b"h", in_a_minute())
    assert isinstance(await second.claim("t", asked.request_id, deferred=False), Entry)
    await asyncio.sleep(0.06)
    assert ("t", asked.request_id) in await second.expired_leases()
    claim = await second.claim("t", asked.request_id, deferred=False)
    assert isinstance(claim, Claim)
    assert claim.request == asked
    assert not await first.finish("t", outcome(asked))
    assert await second.finish("t", outcome(asked))


async def test_a_renewed_lease_is_not_taken(redis: Redis) -> None:
    first, second, asked = ledger(redis, "a", lease_s=0.05), ledger(redis, "b"), request()
    await first.begin("t", asked, b"h", in_a_minute())
    renewing = ledger(redis, "a")
    await renewing.renew([("t", asked.request_id)])
    await asyncio.sleep(0.06)
    assert isinstance(await second.claim("t", asked.request_id, deferred=False), Entry)


async def test_a_released_request_can_be_claimed_at_once(redis: Redis) -> None:
    first, second, asked = ledger(redis, "a"), ledger(redis, "b"), request()
    await first.begin("t", asked, b"h", in_a_minute())
    await first.release("t", asked.request_id)
    assert isinstance(await second.claim("t", asked.request_id, deferred=False), Claim)


async def test_a_deferred_request_is_claimed_once(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    assert await book.defer("t", asked.request_id, in_a_minute())
    claims = await asyncio.gather(*(ledger(redis, name).claim("t", asked.request_id, deferred=True) for name in "bcd"))
    assert sum(isinstance(claim, Claim) for claim in claims) == 1


async def test_a_rejection_that_a_retry_can_mend_does_not_stand_in_its_way(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    rejected = outcome(asked, common_pb2.OUTCOME_REJECTED)
    rejected.error.retry_after_ms = 1
    await book.finish("t", rejected)
    assert (await book.begin("t", asked, b"h", in_a_minute()))[0] is Begun.NEW


async def test_a_cancellation_from_elsewhere_reaches_the_owner_at_its_renewal(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    assert await book.renew([("t", asked.request_id)]) == set()
    await ledger(redis, "b").ask_cancel("t", asked.request_id)
    assert await book.renew([("t", asked.request_id)]) == {("t", asked.request_id)}


async def test_every_key_has_a_time_to_live(redis: Redis) -> None:
    book, asked = ledger(redis, "a"), request()
    await book.begin("t", asked, b"h", in_a_minute())
    for _ in range(2):
        keys = [key async for key in redis.scan_iter(f"*{asked.request_id}*")]
        assert keys
        assert all([await redis.ttl(key) > 0 for key in keys])
        await book.finish("t", outcome(asked))


STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "defer", "claim", "claim deferred", "finish"]), st.sampled_from("ab")),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_whatever_the_order_there_is_at_most_one_final_transition(
    redis: Redis, steps: list[tuple[str, str]]
) -> None:
    """Leases last for ever here, so only the owner or a claim of a deferred request may move it on."""
    asked, books = request(), {name: ledger(redis, name) for name in "ab"}
    state, owner, num_finals = "absent", "", 0
    for step, name in steps:
        book = books[name]
        if step == "begin":
            begun, _ = await book.begin("t", asked, b"h", in_a_minute())
            assert begun.value == ("new" if state == "absent" else state)
            if state == "absent":
                state, owner = "running", name
        elif step == "defer":
            moved = await book.defer("t", asked.request_id, in_a_minute())
            assert moved == (state == "running" and owner == name)
            state = "deferred" if moved else state
        elif step.startswith("claim"):
            found = await book.claim("t", asked.request_id, deferred=step.endswith("deferred"))
            assert isinstance(found, Claim) == (state == "deferred" and step.endswith("deferred"))
            if isinstance(found, Claim):
                state, owner = "running", name
        elif state != "absent":
            done = await book.finish("t", outcome(asked))
            assert done == (state == "running" and owner == name)
            num_finals += done
            state = "final" if done else state
    assert num_finals <= 1
