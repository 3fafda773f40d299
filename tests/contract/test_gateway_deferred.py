"""Deferred requests over a real Valkey: which runs next, dead letters, and what an operator can do with both."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from click.testing import CliRunner, Result
from prometheus_client import REGISTRY
from quality_support import Valkey, running_valkey

from services.gateway.config import GatewayConfig
from services.gateway.deferral import Deferral
from services.gateway.deferral_lag import DeferralLag
from services.gateway.deferred_admin import DeferredAdmin
from services.gateway.deferred_runs import DeferredRuns
from services.gateway.deferred_servicer import DeferredServicer
from services.gateway.ledger import Claim, Ledger
from services.gateway.running import RunningRequest
from services.gateway.store import GuardedLedger
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import deferred_pb2_grpc, gateway_pb2
from stagemesh.cli.main import main
from stagemesh.runtime.errors import StagemeshError, Unauthenticated, Unavailable
from stagemesh.runtime.interceptors import CallInterceptor
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis, connect
from stagemesh.runtime.topics import DEFERRED

COMPLETE, DEAD = common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEAD_LETTERED
CONFIG = GatewayConfig(deferred_max_runs=2)
LEASE_S = 0.05
TOKEN = "the-mesh's-own"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    folder: Path = tmp_path_factory.mktemp("deferred")
    with running_valkey(folder) as valkey:
        yield valkey


@pytest.fixture
async def redis(server: Valkey) -> AsyncIterator[Redis]:
    client = connect(server.url)
    await client.flushall()
    yield client
    await client.aclose()


class World:
    """A gateway's deferral with a pipeline that answers at once, or not at all."""

    def __init__(self, redis: Redis) -> None:
        self.outbox = Outbox(redis, DEFERRED, ttl_s=600, max_entries=100)
        self.ledger = Ledger(redis, owner="gateway/1", lease_s=LEASE_S, outcome_ttl_s=60)
        self.guarded = GuardedLedger(self.ledger, timeout_s=5)
        self.deferral = Deferral(redis, self.ledger, self.outbox, CONFIG)
        self.ran: list[str] = []
        self.outcome = COMPLETE
        self.hangs = False
        runner = SimpleNamespace(ledger=self.guarded, deferral=self.deferral)
        self.runs = DeferredRuns(self, runner, CONFIG)  # type: ignore[arg-type]
        self.admin = DeferredAdmin(redis, self.ledger, self.outbox, ttl_s=600)

    async def resume(self, claim: Claim) -> RunningRequest:
        """In the place of the gateway's pipeline."""
        self.ran.append(claim.request_id)
        running = RunningRequest(claim.tenant_id, claim.request_id)
        if not self.hangs:
            final = gateway_pb2.Final(request_id=claim.request_id, outcome=self.outcome)  # type: ignore[arg-type]
            final.error.reason = "" if self.outcome == COMPLETE else "INTERNAL"
            assert await self.ledger.finish(claim.tenant_id, final)
            if self.outcome != DEAD:
                await self.deferral.confirm(claim.tenant_id, claim.request_id)
            running.publish(final=final)
        return running

    async def defer(self, priority: int = 0, ttl_s: int = 0) -> str:
        request = gateway_pb2.InferenceRequest(
            request_id=str(uuid.uuid4()), prompt="p", deferral_priority=priority, deferral_ttl_s=ttl_s
        )
        await self.ledger.begin("t", request, b"h", time.time() + 60)
        running = RunningRequest("t", request.request_id)
        job = SimpleNamespace(tenant_id="t", request_id=request.request_id, request=request, route_name="chat")
        assert await self.deferral.defer(SimpleNamespace(job=job, running=running))  # type: ignore[arg-type]
        await asyncio.sleep(0.002)  # the index counts milliseconds
        return request.request_id

    async def work_off(self, ticket: str) -> gateway_pb2.Final:
        """What a worker does with the event of `ticket`."""
        while True:
            try:
                return await self.runs.run("t", ticket)
            except Unavailable as error:
                if error.reason not in {"MORE_URGENT_FIRST", "REQUEST_RUNNING"}:
                    raise
                await asyncio.sleep(0.005)

    async def state_of(self, request_id: str) -> str:
        entry = await self.ledger.lookup("t", request_id)
        assert entry is not None
        return entry.state


@pytest.fixture
async def world(redis: Redis) -> AsyncIterator[World]:
    made = World(redis)
    yield made
    await made.guarded.close(1.0)


async def test_whatever_event_comes_the_most_urgent_request_runs_first_then_the_oldest(world: World) -> None:
    low, old, high, new = [await world.defer(priority) for priority in (-5, 0, 7, 0)]
    assert (await world.work_off(low)).request_id == low
    assert world.ran == [high, old, new, low]
    for ticket in (high, old, new, low):  # their events come as well, and find the outcomes
        assert (await world.work_off(ticket)).outcome == COMPLETE
    assert world.ran == [high, old, new, low]
    assert await world.outbox.count() == 0


async def test_a_more_urgent_request_that_comes_later_goes_before_those_that_were_published(world: World) -> None:
    tickets = [await world.defer() for _ in range(3)]
    await world.outbox.claim_due(10, 60)
    urgent = await world.defer(50)
    await world.work_off(tickets[0])
    assert world.ran[0] == urgent


async def test_side_by_side_runs_take_different_requests(world: World) -> None:
    tickets = [await world.defer(priority) for priority in (3, 2, 1, 0)]
    await asyncio.gather(*(world.work_off(ticket) for ticket in tickets))
    assert sorted(world.ran) == sorted(tickets)


async def test_a_request_whose_runs_were_cut_off_again_and_again_is_dead_lettered(world: World) -> None:
    ticket = await world.defer()
    for run in range(1, CONFIG.deferred_max_runs + 1):  # each ends with the death of its gateway
        claim = await world.ledger.claim("t", ticket, deferred=run == 1)
        assert isinstance(claim, Claim)
        assert claim.runs == run
        await asyncio.sleep(2 * LEASE_S)
    claim = await world.ledger.claim("t", ticket, deferred=False)
    assert isinstance(claim, Claim)
    final = await world.runs._run(claim)
    assert (final.outcome, final.error.reason) == (DEAD, "ATTEMPTS_USED_UP")
    assert [dead.request_id for dead in await world.admin.dead(10)] == [ticket]
    assert world.ran == []


async def test_waiting_for_capacity_is_no_run(world: World) -> None:
    ticket = await world.defer()
    for _ in range(10):
        claim = await world.ledger.claim("t", ticket, deferred=True)
        assert isinstance(claim, Claim)
        assert claim.runs == 1
        assert await world.ledger.defer("t", ticket, time.time() + 60)


async def test_a_dead_letter_stays_in_the_index_until_a_worker_has_told_of_it(world: World) -> None:
    world.outcome = DEAD
    ticket = await world.defer()
    assert (await world.work_off(ticket)).outcome == DEAD
    assert await world.outbox.count() == 1
    assert (await world.work_off(ticket)).outcome == DEAD
    assert await world.outbox.count() == 0


async def test_a_dead_letter_is_listed_with_its_reason_and_runs_again_when_an_operator_says_so(world: World) -> None:
    world.outcome = DEAD
    ticket = await world.defer(priority=4)
    await world.work_off(ticket)
    (dead,) = await world.admin.dead(10)
    assert (dead.request_id, dead.state, dead.reason) == (ticket, "dead", "INTERNAL")
    await world.admin.retry(dead)
    assert await world.admin.dead(10) == []
    (waiting,) = await world.admin.waiting(10)
    assert (waiting.state, waiting.priority) == ("waiting", 4)
    world.outcome = COMPLETE
    assert (await world.work_off(ticket)).outcome == COMPLETE
    with pytest.raises(StagemeshError, match="REQUEST_NOT_FOUND"):
        await world.admin.find(ticket)


async def test_only_a_dead_letter_runs_again(world: World) -> None:
    ticket = await world.defer()
    with pytest.raises(StagemeshError, match="NOT_DEAD_LETTERED"):
        await world.admin.retry(await world.admin.find(ticket))
    assert await world.state_of(ticket) == "deferred"


async def test_a_dropped_request_is_cancelled_once_and_never_runs(world: World) -> None:
    ticket, other = await world.defer(), await world.defer()
    await world.admin.drop(await world.admin.find(ticket))
    await world.work_off(other)
    assert (await world.work_off(ticket)).error.reason == "DROPPED"
    assert world.ran == [other]


async def test_a_dropped_dead_letter_keeps_its_outcome_and_loses_its_payload(world: World) -> None:
    world.outcome = DEAD
    ticket = await world.defer()
    await world.work_off(ticket)
    dead = await world.admin.find(ticket)
    await world.admin.drop(dead)
    assert await world.admin.request_of(dead) is None
    assert (await world.work_off(ticket)).outcome == DEAD


async def test_a_request_that_may_wait_for_a_second_expires_after_it(world: World) -> None:
    patient, hasty = await world.defer(), await world.defer(ttl_s=1)
    await asyncio.sleep(1.05)
    assert [entry.request_id for entry in await world.outbox.expired(10)] == [hasty]
    await world.runs.expire("t", hasty)
    assert (await world.work_off(hasty)).outcome == common_pb2.OUTCOME_EXPIRED
    assert await world.state_of(patient) == "deferred"


async def test_the_lag_is_the_age_of_the_oldest_without_an_outcome(world: World) -> None:
    def value(name: str) -> float:
        return REGISTRY.get_sample_value(f"stagemesh_{name}") or 0.0

    lag = DeferralLag(world.outbox, every_s=3600)
    before_s = time.time()
    first, second = await world.defer(-1), await world.defer(1)
    await asyncio.sleep(0.2)
    await lag.look()
    assert value("deferred_waiting") == 2
    assert 0.2 <= value("deferral_lag_seconds") <= time.time() - before_s
    for ticket in (first, second):
        await world.work_off(ticket)
    await lag.look()
    assert (value("deferred_waiting"), value("deferral_lag_seconds")) == (0, 0)
    await lag.close()


class Callers:
    """Who calls: two tenants by their keys."""

    async def authenticate(self, api_key: str | None, tenant_header: str | None) -> Tenant:
        if api_key not in {"key-t", "key-u"}:
            raise Unauthenticated("API_KEY_INVALID", "this API key is not known")
        return Tenant(str(api_key).removeprefix("key-"))


@pytest.fixture
async def address(world: World) -> AsyncIterator[str]:
    """Of a gateway that serves deferred requests alone."""
    server = grpc.aio.server(interceptors=[CallInterceptor("")])
    servicer = DeferredServicer(Callers(), world.admin, CONFIG, TOKEN)  # type: ignore[arg-type]
    deferred_pb2_grpc.add_DeferredServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def command(address: str, folder: Path, *arguments: str, token: str = TOKEN) -> Result:
    environment = {"STAGEMESH_CONFIG": None, "STAGEMESH_STATE": str(folder), "STAGEMESH_MESH_TOKEN": token}
    asked = ("deferred", *arguments, "--address", address)
    return await asyncio.to_thread(CliRunner().invoke, main, asked, env=environment)


async def test_the_command_lists_shows_retries_and_drops(address: str, world: World, tmp_path: Path) -> None:
    world.outcome = DEAD
    ticket = await world.defer(priority=2)

    async def said(*arguments: str) -> str:
        result = await command(address, tmp_path, *arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    (waiting,) = json.loads(await said("list", "--json"))
    assert (waiting["request_id"], waiting["priority"], waiting["state"]) == (ticket, 2, "waiting")
    await world.work_off(ticket)
    (dead,) = json.loads(await said("list", "--dead", "--json"))
    assert (dead["request_id"], dead["reason"]) == (ticket, "INTERNAL")
    shown = json.loads(await said("show", ticket, "--json"))
    assert shown["request"] == {"request_id": ticket, "prompt_chars": 1, "deferral_priority": 2}
    assert json.loads(await said("retry", "--all", "--json")) == {"retried": [ticket]}
    assert "cancelled" in await said("drop", ticket)
    gone = await command(address, tmp_path, "drop", ticket)
    assert (gone.exit_code, "REQUEST_NOT_FOUND" in gone.output) == (4, True)


async def test_a_tenant_reaches_its_own_and_nobody_elses(address: str, world: World, tmp_path: Path) -> None:
    world.outcome = DEAD
    dead, waiting = await world.defer(priority=1), await world.defer()
    await world.work_off(dead)

    async def as_tenant(key: str, *arguments: str) -> Result:
        return await command(address, tmp_path, *arguments, "--tenant-key", key)

    other = await as_tenant("key-u", "list", "--json")
    assert json.loads(other.stdout) == []
    for arguments in (("show", waiting), ("drop", waiting), ("retry", dead)):
        refused = await as_tenant("key-u", *arguments)
        assert (refused.exit_code, "REQUEST_NOT_FOUND" in refused.output) == (4, True)
    refused = await as_tenant("key-u", "list", "--tenant", "t")
    assert "TENANT_MISMATCH" in refused.output
    assert json.loads((await as_tenant("key-u", "retry", "--all", "--json")).stdout) == {"retried": []}
    assert json.loads((await as_tenant("key-t", "retry", "--all", "--json")).stdout) == {"retried": [dead]}
    assert len(json.loads((await as_tenant("key-t", "list", "--json")).stdout)) == 2
    assert await world.state_of(waiting) == "deferred"


async def test_a_wrong_token_is_no_operator(address: str, world: World, tmp_path: Path) -> None:
    ticket = await world.defer()
    refused = await command(address, tmp_path, "drop", ticket, token="another")
    assert refused.exit_code == 4
    assert await world.state_of(ticket) == "deferred"
