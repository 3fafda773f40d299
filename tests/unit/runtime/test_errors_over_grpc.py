import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.runtime import context
from stagemesh.runtime.channel import call_metadata, dial, target_of
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import Exhausted, from_detail, from_rpc, to_detail
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import bind, build_server


class Servicer(cache_pb2_grpc.CacheServiceServicer):
    async def GetSession(
        self, request: cache_pb2.GetSessionRequest, grpc_context: Context
    ) -> cache_pb2.GetSessionResponse:
        if request.session_id == "crash":
            raise RuntimeError("a secret detail")
        if request.session_id == "context":
            return cache_pb2.GetSessionResponse(session=cache_pb2.Session(session_id=context.request_id.get()))
        raise Exhausted("TOO_MANY", "try later", field="session_id", retry_after_ms=1500)


class CacheService:
    service_names = ("stagemesh.api.cache.v1.CacheService",)

    def register(self, server: grpc.aio.Server) -> None:
        cache_pb2_grpc.add_CacheServiceServicer_to_server(Servicer(), server)

    async def start(self) -> None: ...

    async def drain(self, grace_s: float) -> None: ...

    async def close(self) -> None: ...


@pytest.fixture
async def channel(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[grpc.aio.Channel]:
    monkeypatch.setenv("STAGEMESH_MESH_TOKEN", "s3cret")
    server, _ = build_server(CacheService(), MeshConfig(mesh_token="s3cret"))
    port = bind(server, "127.0.0.1:0", "--cache-port")
    await server.start()
    channel = dial([f"127.0.0.1:{port}"])
    yield channel
    await channel.close()
    await server.stop(None)


@pytest.fixture
def stub(channel: grpc.aio.Channel) -> cache_pb2_grpc.CacheServiceStub:
    return cache_pb2_grpc.CacheServiceStub(channel)


async def fail(stub: cache_pb2_grpc.CacheServiceStub, session_id: str, metadata: object = None) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetSession(
            cache_pb2.GetSessionRequest(session_id=session_id),
            metadata=call_metadata() if metadata is None else metadata,
            timeout=5,
        )
    return caught.value


async def test_a_typed_error_crosses_the_wire_whole(stub: cache_pb2_grpc.CacheServiceStub) -> None:
    error = from_rpc(await fail(stub, "x"))
    assert isinstance(error, Exhausted)
    assert (error.reason, error.message, error.field, error.retry_after_ms) == (
        "TOO_MANY",
        "try later",
        "session_id",
        1500,
    )
    assert from_detail(to_detail(error)).retry_after_ms == 1500


async def test_an_unexpected_error_is_internal_and_tells_nothing(stub: cache_pb2_grpc.CacheServiceStub) -> None:
    error = await fail(stub, "crash")
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in (error.details() or "")


async def test_a_call_without_the_mesh_token_is_refused(stub: cache_pb2_grpc.CacheServiceStub) -> None:
    error = await fail(stub, "x", metadata=())
    assert from_rpc(error).reason == "MESH_TOKEN_REQUIRED"


async def test_the_request_id_travels_in_metadata(stub: cache_pb2_grpc.CacheServiceStub) -> None:
    async def call() -> str:
        context.request_id.set("r-1")
        response = await stub.GetSession(
            cache_pb2.GetSessionRequest(session_id="context"), metadata=call_metadata(), timeout=5
        )
        return response.session.session_id

    assert await asyncio.create_task(call()) == "r-1"


async def test_a_taken_port_is_named_with_its_option() -> None:
    first, _ = build_server(CacheService(), MeshConfig())
    port = bind(first, "127.0.0.1:0", "--cache-port")
    second, _ = build_server(CacheService(), MeshConfig())
    with pytest.raises(ConfigError, match=rf"{port}.*--cache-port"):
        bind(second, f"127.0.0.1:{port}", "--cache-port")
    await first.stop(None)
    await second.stop(None)


def test_replicas_become_one_target() -> None:
    assert target_of(["127.0.0.1:1", "127.0.0.1:2"]) == "ipv4:127.0.0.1:1,127.0.0.1:2"
    assert target_of(["engine:50053"]) == "dns:///engine:50053"


async def test_a_malformed_message_is_an_invalid_argument(channel: grpc.aio.Channel) -> None:
    call = channel.unary_unary("/stagemesh.api.cache.v1.CacheService/GetSession")  # bytes in, bytes out
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(b"\x12\x02\xff\xfe", metadata=call_metadata(), timeout=5)  # field 2 is no UTF-8
    assert from_rpc(caught.value).reason == "MALFORMED_MESSAGE"
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
