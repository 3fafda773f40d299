import asyncio
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest
from pydantic import ValidationError

from stagemesh.api.faults.v1 import faults_pb2, faults_pb2_grpc
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.channel import dial
from stagemesh.runtime.errors import Forbidden, InvalidRequest, from_rpc
from stagemesh.runtime.faults import (
    HEADER,
    STAGES,
    Fault,
    Kind,
    RequestFaults,
    board,
    outgoing,
    parse_faults,
    request_faults,
    write_faults,
)
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import bind, build_server

TOKEN = (("x-mesh-token", "s3cret"),)


class Validator(validator_pb2_grpc.ValidatorServiceServicer):
    async def Validate(
        self, request: validator_pb2.ValidateRequest, context: Context
    ) -> validator_pb2.ValidateResponse:
        return validator_pb2.ValidateResponse(verdict=validator_pb2.Verdict(valid=True))


class Service:
    service_names = ("stagemesh.api.validator.v1.ValidatorService",)

    def register(self, server: grpc.aio.Server) -> None:
        validator_pb2_grpc.add_ValidatorServiceServicer_to_server(Validator(), server)

    async def start(self) -> None: ...

    async def drain(self, grace_s: float) -> None: ...

    async def close(self) -> None: ...


@pytest.fixture
def open_board() -> Iterator[None]:
    board.open([])
    yield
    board.close()


@pytest.fixture
async def channel(open_board: None) -> AsyncIterator[grpc.aio.Channel]:
    server, _ = build_server(Service(), MeshConfig(mesh_token="s3cret"))
    port = bind(server, "127.0.0.1:0", "--port")
    await server.start()
    channel = dial([f"127.0.0.1:{port}"])
    yield channel
    await channel.close()
    await server.stop(None)


async def validate(channel: grpc.aio.Channel, *extra: tuple[str, str], timeout_s: float = 5) -> bool:
    stub = validator_pb2_grpc.ValidatorServiceStub(channel)
    request = validator_pb2.ValidateRequest(text="x")
    return (await stub.Validate(request, metadata=(*TOKEN, *extra), timeout=timeout_s)).verdict.valid


@pytest.mark.parametrize(
    "text", ["attend=nan", "tokenize=delay;ms=200", "mlp=error;rate=0.25;times=7;seed=3;layer=2, cache=kill"]
)
def test_faults_are_read_as_they_are_written(text: str) -> None:
    assert write_faults(parse_faults(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("attend", "attend=boom", "nowhere=error", "cache=nan", "mlp=error;rate=2", "mlp=error;rate=0"),
        *("mlp=error;x=1", "mlp=error;times=-1", "mlp=error;times=1.5", "mlp=delay;ms=99999999", "="),
        "mlp=error;" + "x" * 3_000,
    ],
)
def test_what_says_nothing_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"\S") as caught:
        parse_faults(text)
    assert caught.value.reason == "INVALID_FAULT"


def test_the_board_refuses_until_it_is_opened() -> None:
    with pytest.raises(Forbidden):
        board.post(Fault(stage="mlp", kind=Kind.ERROR))
    assert board.draw(*STAGES) is None


def test_a_rate_is_kept_and_a_seed_repeats_the_draws(open_board: None) -> None:
    def draws() -> list[bool]:
        board.clear()
        board.post(Fault(stage="mlp", kind=Kind.ERROR, rate=0.3, seed=5))
        return [board.draw("mlp") is not None for _ in range(1_000)]

    first = draws()
    assert 250 < sum(first) < 350
    assert draws() == first
    assert board.draw("attend") is None


def test_a_fault_happens_so_often_at_most(open_board: None) -> None:
    board.post(Fault(stage="mlp", kind=Kind.ERROR, times=2))
    assert [board.draw("mlp") is not None for _ in range(4)] == [True, True, False, False]
    assert board.clear("attend") == 0
    assert board.clear("mlp") == 1
    assert not board.is_armed


async def test_a_request_s_fault_goes_with_one_call_to_its_stage() -> None:
    token = request_faults.set(RequestFaults(parse_faults("tokenize=error, cache=delay;times=2")))
    try:
        assert outgoing("validate") == ()
        assert outgoing("tokenize", "analyze") == ((HEADER, "tokenize=error"),)
        assert outgoing("tokenize", "analyze") == ()
        assert [len(outgoing("cache")) for _ in range(3)] == [1, 1, 0]
    finally:
        request_faults.reset(token)


async def test_a_call_fails_as_its_header_says_and_the_next_does_not(channel: grpc.aio.Channel) -> None:
    for kind in ("error", "oom"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await validate(channel, (HEADER, f"validate={kind}"))
        assert caught.value.code() is grpc.StatusCode.INTERNAL
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await validate(channel, (HEADER, "validate=hang"), timeout_s=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await validate(channel, (HEADER, "correct=error"))
    assert await validate(channel, (HEADER, "validate=delay;ms=1"))


async def test_faults_are_posted_listed_and_taken_down_while_the_process_runs(channel: grpc.aio.Channel) -> None:
    stub = faults_pb2_grpc.FaultsServiceStub(channel)
    fault = faults_pb2.Fault(stage="validate", kind=faults_pb2.FAULT_KIND_ERROR, times=1)
    await stub.Inject(faults_pb2.InjectRequest(fault=fault), metadata=TOKEN)
    with pytest.raises(grpc.aio.AioRpcError):
        await validate(channel)
    assert await validate(channel)
    (posted,) = (await stub.List(faults_pb2.ListRequest(), metadata=TOKEN)).faults
    assert (posted.fault.stage, posted.num_struck) == ("validate", 1)
    assert (await stub.Clear(faults_pb2.ClearRequest(), metadata=TOKEN)).num_cleared == 1
    assert not (await stub.List(faults_pb2.ListRequest(), metadata=TOKEN)).faults


async def test_posting_needs_the_mesh_token(channel: grpc.aio.Channel) -> None:
    stub = faults_pb2_grpc.FaultsServiceStub(channel)
    for metadata in ((), (("x-mesh-token", "guess"),)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.List(faults_pb2.ListRequest(), metadata=metadata)
        assert from_rpc(caught.value).reason == "MESH_TOKEN_REQUIRED"


async def test_production_knows_no_faults() -> None:
    server, _ = build_server(Service(), MeshConfig(mesh_token="s3cret", environment="production"))
    port = bind(server, "127.0.0.1:0", "--port")
    await server.start()
    channel = dial([f"127.0.0.1:{port}"])
    try:
        stub = faults_pb2_grpc.FaultsServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.List(faults_pb2.ListRequest(), metadata=TOKEN)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert await validate(channel, (HEADER, "validate=error"))
    finally:
        await channel.close()
        await server.stop(None)


def test_a_production_mesh_with_faults_in_its_configuration_does_not_start() -> None:
    rules = [{"stage": "mlp", "kind": "error"}]
    assert MeshConfig(faults=rules).faults[0].fault() == Fault(stage="mlp", kind=Kind.ERROR)
    with pytest.raises(ValidationError, match="production"):
        MeshConfig(environment="production", faults=rules)
    with pytest.raises(ValidationError, match="cannot fail by"):
        MeshConfig(faults=[{"stage": "cache", "kind": "nan"}])


async def test_waiting_faults_do_not_hold_up_other_calls(channel: grpc.aio.Channel) -> None:
    late = asyncio.create_task(validate(channel, (HEADER, "validate=hang"), timeout_s=3))
    await asyncio.sleep(0)
    assert await validate(channel)
    assert not late.done()
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
