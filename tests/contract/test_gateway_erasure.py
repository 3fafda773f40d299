"""What the ledger keeps of an erased user's or session's requests goes, over a real Valkey; others' stays."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from quality_support import Valkey, running_valkey

from services.gateway.config import GatewayConfig
from services.gateway.deferral import Deferral
from services.gateway.deferred_admin import DeferredAdmin
from services.gateway.event_store import stream_key
from services.gateway.ledger import ERASED_TTL_S, Ledger, _key
from services.gateway.request_erasure import RequestErasure
from services.gateway.running import RunningRequest
from services.gateway.traces import store
from services.gateway.traces.record import trace_of
from services.gateway.traces.store import TraceStore, read_traces
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis, connect
from stagemesh.runtime.topics import DEFERRED

SECRET = "the user's own words"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    folder: Path = tmp_path_factory.mktemp("erasure")
    with running_valkey(folder) as valkey:
        yield valkey


class World:
    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.outbox = Outbox(redis, DEFERRED, ttl_s=600, max_entries=100)
        self.ledger = Ledger(redis, owner="gateway/1", lease_s=5, outcome_ttl_s=3_600)
        self.traces = TraceStore(redis, ttl_s=600, routes=["chat"])
        self.erasure = RequestErasure(redis, self.ledger, self.outbox, self.traces)

    async def begin(self, user: str, session: str = "", tenant: str = "t") -> gateway_pb2.InferenceRequest:
        request = gateway_pb2.InferenceRequest(
            request_id=str(uuid.uuid4()), prompt=SECRET, user_id=user, session_id=session
        )
        await self.ledger.begin(tenant, request, b"h", time.time() + 60)
        return request

    async def end(
        self,
        request: gateway_pb2.InferenceRequest,
        outcome: common_pb2.Outcome.ValueType = common_pb2.OUTCOME_COMPLETE,
        tenant: str = "t",
    ) -> None:
        final = gateway_pb2.Final(request_id=request.request_id, outcome=outcome)
        final.choices.add(text=SECRET)
        await self.ledger.finish(tenant, final)
        event = gateway_pb2.Event(seq=1, delta=gateway_pb2.Delta(text=SECRET))
        await self.redis.xadd(stream_key(tenant, request.request_id), {"event": event.SerializeToString()})
        self.traces.offer(tenant, request.session_id, trace_of("chat", final))

    async def everything(self) -> str:
        """All keys and values, as text."""
        found = []
        for key in await self.redis.keys("*"):
            match await self.redis.type(key):
                case b"hash":
                    value: object = await self.redis.hgetall(key)
                case b"list":
                    value = await self.redis.lrange(key, 0, -1)
                case b"zset":
                    value = await self.redis.zrange(key, 0, -1)
                case b"stream":
                    value = await self.redis.xrange(key)
                case _:
                    value = await self.redis.get(key)
            found.append(f"{key!r} {value!r}")
        return "\n".join(found)


@pytest.fixture
async def world(server: Valkey, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(store, "BATCH_EVERY_S", 3_600.0)  # what waits to be written must be erased as well
    redis = connect(server.url)
    await redis.flushall()
    made = World(redis)
    yield made
    await made.traces.close()
    await redis.aclose()


async def test_of_an_erased_user_nothing_is_left_and_others_keep_theirs(world: World) -> None:
    gone = [await world.begin("ann", "s1"), await world.begin("ann")]
    kept = [await world.begin("bob", "s2"), await world.begin("ann", tenant="u")]
    for request in gone:
        await world.end(request)
    await world.end(kept[0])
    await world.end(kept[1], tenant="u")
    assert sorted(await world.erasure.erase("t", user_id="ann")) == sorted(each.request_id for each in gone)
    left = await world.everything()
    assert not any(each.request_id in left for each in gone)
    assert all(each.request_id in left for each in kept)
    assert await read_traces(world.redis, store.session_key("t", "s1"), 10) == []
    assert [trace.request_id for trace in await read_traces(world.redis, store.tenant_key("t"), 10)] == [
        kept[0].request_id
    ]


async def test_dead_letters_and_waiting_requests_of_an_erased_user_go_and_never_run(world: World) -> None:
    dead, waiting = await world.begin("ann"), await world.begin("ann")
    await world.end(dead, common_pb2.OUTCOME_DEAD_LETTERED)
    deferral = Deferral(world.redis, world.ledger, world.outbox, GatewayConfig())
    job = SimpleNamespace(tenant_id="t", request_id=waiting.request_id, request=waiting, route_name="chat")
    running = RunningRequest("t", waiting.request_id)
    assert await deferral.defer(SimpleNamespace(job=job, running=running))  # type: ignore[arg-type]
    await world.erasure.erase("t", user_id="ann")
    admin = DeferredAdmin(world.redis, world.ledger, world.outbox, ttl_s=600)
    assert (await admin.dead(0), await admin.waiting(0), await world.outbox.count()) == ([], [], 0)
    assert await world.ledger.claim("t", dead.request_id, deferred=True) is None
    entry = await world.ledger.lookup("t", waiting.request_id)
    assert entry is not None
    assert entry.final is not None
    assert entry.final.outcome == common_pb2.OUTCOME_CANCELLED
    assert SECRET not in await world.everything()


async def test_a_request_that_runs_while_its_session_is_erased_keeps_its_outcome_for_a_moment_only(
    world: World,
) -> None:
    request = await world.begin("", "s1")
    await world.erasure.erase("t", session_id="s1")
    await world.end(request, common_pb2.OUTCOME_DEAD_LETTERED)
    assert 0 < await world.redis.ttl(_key("t", request.request_id)) <= ERASED_TTL_S
    assert await world.ledger.dead_letters(0) == []
    assert await world.ledger.request_of("t", request.request_id) is None
