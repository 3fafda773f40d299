"""kill -9 of each process in turn under light load: every accepted request ends, nothing hangs, the mesh comes back."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from mesh_support import AUTH, Mesh, ask, wait_until

from benchmarks.chaos import all_of, is_equal, stream_requests, with_ids
from benchmarks.chaos_client import Caller
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.chaos

BACK_WITHIN_S = 20
"""On two cores that the other engine computes on meanwhile."""
DEADLINE_S = 60
FINAL = {
    common_pb2.OUTCOME_COMPLETE,
    common_pb2.OUTCOME_DEGRADED,
    common_pb2.OUTCOME_REJECTED,
    common_pb2.OUTCOME_CANCELLED,
    common_pb2.OUTCOME_EXPIRED,
    common_pb2.OUTCOME_DEAD_LETTERED,
}
ANSWERED = {common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED}
VICTIMS = [
    "tokenizer",
    "cache",
    "validator",
    "corrector",
    "engine-1",
    "worker",
    "kafka",
    "valkey",
    "valkey-kv",
    "gateway",
]


@pytest.fixture(scope="module")
def own_mesh(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> Iterator[Mesh]:
    running = Mesh(tmp_path_factory.mktemp("chaos"), {"gateway": {"lease_s": 3}, "engine": {"threads": 1}}, engines=2)
    running.up()
    yield running
    running.down()


@dataclass
class Load:
    """Streams that are asked for one after the other by a few clients; what each client saw."""

    mesh: Mesh
    accepted: list[str] = field(default_factory=list)
    """IDs whose `queued` event came."""
    outcomes: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    stopped: bool = False

    async def client(self, number: int) -> None:
        while not self.stopped:
            async with self.mesh.channel() as channel:
                await self._one(gateway_pb2_grpc.GatewayServiceStub(channel), number)
            await asyncio.sleep(0.05)

    async def _one(self, stub: gateway_pb2_grpc.GatewayServiceStub, number: int) -> None:
        schema = '{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"]}'
        constraint = common_pb2.OutputConstraint(json_schema=schema) if number == 0 else None
        request = ask(f"Client {number}.", request_id=str(uuid.uuid4()), constraint=constraint, resumable=number == 1)
        call = stub.Generate(gateway_pb2.GenerateRequest(request=request), metadata=AUTH, timeout=DEADLINE_S)
        try:
            async for response in call:
                if response.event.HasField("queued") and request.request_id not in self.outcomes:
                    self.outcomes[request.request_id] = 0
                    self.accepted.append(request.request_id)
                if response.event.HasField("final"):
                    self.outcomes[request.request_id] = response.event.final.outcome
        except grpc.aio.AioRpcError as error:
            self.errors.append(error.code().name)


@asynccontextmanager
async def light_load(mesh: Mesh) -> AsyncIterator[Load]:
    load = Load(mesh)
    clients = [asyncio.create_task(load.client(number)) for number in range(3)]
    yield load
    load.stopped = True
    async with asyncio.timeout(DEADLINE_S + 10):  # no stream hangs past its deadline
        await asyncio.gather(*clients)


async def outcome_in_the_ledger(mesh: Mesh, request_id: str) -> int:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        watch = stub.Watch(gateway_pb2.WatchRequest(request_id=request_id), metadata=AUTH, timeout=DEADLINE_S)
        outcome = 0
        async for response in watch:
            outcome = response.event.final.outcome
        return outcome


@pytest.mark.timeout(240)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_every_accepted_request_ends_and_the_mesh_comes_back(own_mesh: Mesh, victim: str) -> None:
    async with light_load(own_mesh) as load:
        async with asyncio.timeout(60):
            while len(load.accepted) < 4:
                await asyncio.sleep(0.05)
        killed = await asyncio.to_thread(own_mesh.kill, victim)
        before = len(load.accepted)

        def is_back() -> bool:
            process = own_mesh.status()[victim]
            return process["state"] == "ready" and process["pid"] != killed

        await asyncio.to_thread(wait_until, is_back, BACK_WITHIN_S, f"{victim} is back")
        async with asyncio.timeout(60):
            while len(load.accepted) < before + 4:
                await asyncio.sleep(0.05)
    outcomes = {request_id: await outcome_in_the_ledger(own_mesh, request_id) for request_id in load.accepted}
    assert set(outcomes.values()) <= FINAL
    for request_id, seen in load.outcomes.items():
        assert seen in {0, outcomes[request_id]}, "the caller was told something else than the ledger holds"
    lost_by_the_caller = [request_id for request_id, seen in load.outcomes.items() if seen not in ANSWERED]
    if victim in {"tokenizer", "cache", "validator", "corrector", "engine-1", "worker", "kafka", "valkey-kv"}:
        assert not lost_by_the_caller, f"{load.errors}"
    answered = sum(outcome in ANSWERED for outcome in outcomes.values())
    assert answered == len(outcomes), f"{outcomes}"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("victim", ["engine-1", "tokenizer"])
async def test_streams_go_on_with_the_same_tokens_and_text(own_mesh: Mesh, victim: str) -> None:
    await asyncio.to_thread(wait_until, own_mesh.is_ready, 60, "all are ready")
    caller = Caller(f"127.0.0.1:{own_mesh.grpc_port}", deadline_s=DEADLINE_S, patience_s=DEADLINE_S)
    undisturbed = await all_of(caller, with_ids(stream_requests(5, 48)), 5)

    running = asyncio.create_task(all_of(caller, with_ids(stream_requests(5, 48)), 5))
    await asyncio.sleep(0.3 * max(one.seconds for one in undisturbed))
    await asyncio.to_thread(own_mesh.kill, victim)
    disturbed = await running
    assert [is_equal(*pair) for pair in zip(undisturbed, disturbed, strict=True)] == [True] * 5
    assert [one.texts for one in disturbed] == [one.texts for one in undisturbed]
    assert any(one.logprobs for one in disturbed)
    assert {one.outcome for one in disturbed} == {common_pb2.OUTCOME_COMPLETE}, [one.errors for one in disturbed]
    assert sum(one.gaps for one in disturbed) == 0
