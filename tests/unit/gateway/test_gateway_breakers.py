"""Stages that run elsewhere are left alone after failures, and come back by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from services.gateway import breakers
from services.gateway.breakers import StageBreakers
from services.gateway.calls import BreakerOpen, call
from services.gateway.config import BreakersConfig, GatewayConfig
from services.gateway.engines import Engines
from services.gateway.reloading import Reloading
from services.gateway.service_problem import service_problem
from services.gateway.stage_policies import POLICIES
from services.gateway.stages import ORDER
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.breaker import State
from stagemesh.runtime.channel import dial
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.retry import RetryPolicy

ROOT = Path(__file__).parents[3]
POLICY = POLICIES["validate"]
REQUEST = validator_pb2.ValidateRequest(text="x")


class Validator(validator_pb2_grpc.ValidatorServiceServicer):
    def __init__(self) -> None:
        self.fails = True
        self.code = grpc.StatusCode.INTERNAL
        self.num_calls = 0

    async def Validate(
        self, request: validator_pb2.ValidateRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> validator_pb2.ValidateResponse:
        self.num_calls += 1
        if self.fails:
            await context.abort(self.code, "a fault")
        return validator_pb2.ValidateResponse()


class Mesh:
    def __init__(self, port: int, servicer: Validator, health_servicer: health.aio.HealthServicer) -> None:
        self.servicer, self.health = servicer, health_servicer
        self.channel = dial([f"127.0.0.1:{port}"])
        self.breakers = StageBreakers(BreakersConfig(open_s=0.01), {"validate": self.channel})

    async def validate(self) -> validator_pb2.ValidateResponse:
        stub = validator_pb2_grpc.ValidatorServiceStub(self.channel)
        watch = self.breakers.watch("validate")
        policy = RetryPolicy(max_attempts=5, first_backoff_s=0.001, max_faults=4)
        answer = await call(stub.Validate, REQUEST, policy, Deadline.after(20), 5.0, watch=watch, skips=POLICY.skips)
        return answer.response

    async def is_well(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        await self.health.set(POLICY.health, status)


@pytest.fixture
async def mesh(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mesh]:
    monkeypatch.setattr(breakers, "PROBE_EVERY_S", 0.01)
    servicer, health_servicer, server = Validator(), health.aio.HealthServicer(), grpc.aio.server()
    validator_pb2_grpc.add_ValidatorServiceServicer_to_server(servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    mesh = Mesh(port, servicer, health_servicer)
    yield mesh
    await mesh.breakers.close()
    await mesh.channel.close()
    await server.stop(None)


async def test_a_stage_that_fails_is_left_alone_and_taken_back_when_its_health_says_so(mesh: Mesh) -> None:
    await mesh.is_well(health_pb2.HealthCheckResponse.NOT_SERVING)
    with pytest.raises(BreakerOpen):
        await mesh.validate()
    assert mesh.servicer.num_calls == 3
    with pytest.raises(BreakerOpen):
        await mesh.validate()
    assert mesh.servicer.num_calls == 3
    mesh.servicer.fails = False
    await mesh.is_well(health_pb2.HealthCheckResponse.SERVING)
    async with asyncio.timeout(20):
        while mesh.breakers["validate"].state is not State.CLOSED:
            await asyncio.sleep(0.005)
    assert mesh.servicer.num_calls == 3, "no request had to try it"
    await mesh.validate()


async def test_a_refusal_of_a_request_speaks_not_against_the_service(mesh: Mesh) -> None:
    mesh.servicer.code = grpc.StatusCode.INVALID_ARGUMENT
    for _ in range(5):
        with pytest.raises(grpc.aio.AioRpcError):
            await mesh.validate()
    assert mesh.breakers["validate"].state is State.CLOSED
    assert not mesh.breakers.open_stages()


@pytest.mark.parametrize("service", ["tokenizer", "validator", "corrector"])
def test_no_bare_status_stands_for_a_reason(service: str) -> None:
    assert service_problem(service, BreakerOpen()).reason == f"{service.upper()}_UNAVAILABLE"


def test_every_stage_has_a_policy_in_order_and_the_readme_shows_them() -> None:
    names = [common_pb2.Stage.Name(stage).removeprefix("STAGE_").lower() for stage in ORDER]
    assert list(POLICIES) == names
    text = (ROOT / "services" / "gateway" / "README.md").read_text(encoding="utf-8")
    rows = [
        f"| {stage} | {policy.runs_in} | `{policy.deadline}` | {policy.retries.max_attempts} | `{policy.health}` | "
        f"{policy.checkpoint} | {policy.fallback} |"
        for stage, policy in POLICIES.items()
    ]
    assert [row for row in rows if row not in text] == []


async def test_thresholds_are_taken_from_a_changed_file_and_nothing_from_a_bad_one(mesh: Mesh, tmp_path: Path) -> None:
    file = tmp_path / "stagemesh.yaml"
    file.write_text("gateway: {breakers: {failures: 3}}")
    engines = Engines([], max_message_bytes=65_536)
    reloading = Reloading(mesh.breakers, engines, str(file))
    try:
        assert not reloading.look()
        file.write_text("gateway: {breakers: {failures: 1, open_s: 600, stages: {engine: {failures: 7}}}}")
        assert reloading.look()
        mesh.breakers["validate"].failed()
        assert mesh.breakers["validate"].state is State.OPEN
        file.write_text("gateway: {breakers: {failures: none at all, open_s: 0.1}}")
        assert not reloading.look()
        assert mesh.breakers["validate"].state is State.OPEN
    finally:
        await reloading.close()


def test_thresholds_of_a_part_that_is_none_are_refused() -> None:
    with pytest.raises(ValueError, match="names 'nowhere'"):
        GatewayConfig(breakers={"stages": {"nowhere": {}}})
