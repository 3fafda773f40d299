"""Requests and calls that need the cache service while it is away, silent, refusing, and back after a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from grpc_status import rpc_status
from quality_support import free_port

from services.gateway import sessions_servicer
from services.gateway.config import GatewayConfig
from services.gateway.job import make_job
from services.gateway.patience import Patience
from services.gateway.pipeline import complete
from services.gateway.placement import Placement, SessionEngines
from services.gateway.session_lease import lease_of, open_session
from services.gateway.sessions_servicer import SessionsServicer
from services.gateway.stage_watch import StageWatch
from services.gateway.stages import StageLog
from services.gateway.work import Work, new_outputs
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc, preferences_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, sessions_pb2, sessions_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.exits import Exit
from stagemesh.runtime.breaker import Breaker, BreakerConfig
from stagemesh.runtime.channel import dial
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import DeadlineExceeded, InvalidRequest, StagemeshError, Unavailable, to_status
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.interceptors import CallInterceptor
from stagemesh.runtime.mesh_config import MeshConfig

MODEL = common_pb2.ModelIdentity(model="m")
HASTY = GatewayConfig(session_wait_s=0.3, session_timeout_s=0.1, cache_timeout_s=0.1)
PATIENT = GatewayConfig(session_wait_s=30.0, session_timeout_s=10.0, cache_timeout_s=10.0)


class Cache(cache_pb2_grpc.CacheServiceServicer):
    """Refuses with `errors`, one a call, then knows a session; `silent`: says nothing at all."""

    def __init__(self, *errors: StagemeshError, silent: bool = False) -> None:
        self.errors = list(errors)
        self.silent = silent

    async def _answer(self, context: Any) -> None:
        if self.silent:
            await asyncio.Event().wait()
        if self.errors:
            await context.abort_with_status(rpc_status.to_status(to_status(self.errors.pop(0))))

    async def OpenSession(self, request: Any, context: Any) -> cache_pb2.OpenSessionResponse:
        await self._answer(context)
        return cache_pb2.OpenSessionResponse(session=cache_pb2.Session(session_id=request.session_id, version=7))

    async def Resolve(self, request: Any, context: Any) -> cache_pb2.ResolveResponse:
        await self._answer(context)
        return cache_pb2.ResolveResponse()

    async def GetSession(self, request: Any, context: Any) -> cache_pb2.GetSessionResponse:
        await self._answer(context)
        return cache_pb2.GetSessionResponse()

    async def Forget(self, request: Any, context: Any) -> cache_pb2.ForgetResponse:
        await self._answer(context)
        return cache_pb2.ForgetResponse(sessions=1)


async def start(cache: Cache, port: int) -> grpc.aio.Server:
    server = grpc.aio.server()
    cache_pb2_grpc.add_CacheServiceServicer_to_server(cache, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server


@contextlib.asynccontextmanager
async def peers(cache: Cache | None, port: int | None = None) -> AsyncIterator[Any]:
    """The gateway's view of a cache service that runs, or of an address where none does."""
    port = port or free_port()
    server = await start(cache, port) if cache is not None else None
    channel = dial((f"127.0.0.1:{port}",))

    watch = StageWatch("cache", Breaker(BreakerConfig()), Patience(0.5))

    async def forget(tenant_id: str) -> None:
        return None

    yield SimpleNamespace(
        cache=cache_pb2_grpc.CacheServiceStub(channel),
        preferences=preferences_pb2_grpc.PreferenceServiceStub(channel),
        engines=SimpleNamespace(serving=lambda *_: [], forget=forget),
        sessions=SessionEngines(),
        breakers=SimpleNamespace(watch=lambda stage: watch),
    )
    await channel.close()
    if server is not None:
        await server.stop(None)


def work_for(config: GatewayConfig, seconds: float = 60.0, **fields: Any) -> Work:
    chat = common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content="hi")])
    job = make_job("t", gateway_pb2.InferenceRequest(chat=chat, **fields), MeshConfig(), config)
    return Work(
        job=job,
        running=SimpleNamespace(),  # type: ignore[arg-type]  nothing is published here
        log_stages=StageLog(process_identity("gateway")),
        deadline=Deadline.after(seconds),
        accepted_s=0.0,
        outputs=[],
    )


async def opened(work: Work, connected: Any, config: GatewayConfig) -> cache_pb2.OpenSessionResponse | None:
    mode = common_pb2.PRECISION_MODE_UNSPECIFIED
    return await open_session(work, MODEL, mode, Placement(), connected, config)


@pytest.mark.parametrize(
    ("cache", "reason"),
    [
        (None, "CACHE_UNAVAILABLE"),
        (Cache(silent=True), "CACHE_TOO_SLOW"),
        (Cache(*[Unavailable("CACHE_STORE_UNAVAILABLE", "its Redis is away")] * 1_000), "CACHE_STORE_UNAVAILABLE"),
    ],
)
async def test_a_request_that_lost_its_conversation_says_so_and_that_the_turn_is_not_stored(
    cache: Cache | None, reason: str
) -> None:
    work = work_for(HASTY, session_id="s")
    async with peers(cache) as connected:
        assert await opened(work, connected, HASTY) is None
        lease = await lease_of(work, MODEL, None, tokenizer_pb2.PrepareResponse(token_ids=[1]), connected, HASTY)
    assert lease == cache_pb2.Lease()
    work.outputs = new_outputs(work.job, SimpleNamespace(token_ids={}, num_chars={}))  # type: ignore[arg-type]
    final = complete(work)
    report = final.stages[3]
    assert report.fallback == "without-conversation"
    assert report.reason in {reason, "CACHE_TOO_SLOW"}  # where the wait ends within an attempt
    assert "not stored" in report.detail
    assert final.outcome == common_pb2.OUTCOME_DEGRADED
    assert "without-conversation" in final.error.message


async def test_a_cache_that_comes_back_within_the_wait_gives_the_conversation() -> None:
    work, port = work_for(PATIENT, session_id="s"), free_port()
    async with peers(None, port) as connected:
        opening = asyncio.create_task(opened(work, connected, PATIENT))
        await asyncio.sleep(1.0)
        assert not opening.done()
        server = await start(Cache(Unavailable("CACHE_STORE_UNAVAILABLE", "not yet")), port)
        found = await opening
        await server.stop(None)
    assert found is not None
    assert found.session.version == 7
    assert work.log_stages.degraded is None


async def test_the_wait_leaves_half_of_the_time_to_the_answer() -> None:
    work = work_for(PATIENT, seconds=2.0, session_id="s")
    async with peers(None) as connected:
        assert await opened(work, connected, PATIENT) is None
    assert work.log_stages.degraded is not None


async def test_a_request_with_no_time_left_ends_there() -> None:
    work = work_for(PATIENT, seconds=0.0, session_id="s")
    async with peers(None) as connected:
        with pytest.raises(DeadlineExceeded):
            await opened(work, connected, PATIENT)


async def test_a_session_that_the_cache_refuses_is_refused_at_once() -> None:
    async with peers(Cache(InvalidRequest("ID_TOO_LONG", "too long"))) as connected:
        with pytest.raises(InvalidRequest):
            await opened(work_for(PATIENT, session_id="s"), connected, PATIENT)


class NothingCollected:
    async def erase(self, tenant_id: str, *, user_id: str = "", session_id: str = "") -> None:
        """There is nothing of anybody."""


@pytest.mark.parametrize(("cache", "reason"), [(None, "CACHE_UNAVAILABLE"), (Cache(silent=True), "CACHE_TOO_SLOW")])
async def test_a_request_without_a_session_only_runs_cold(cache: Cache | None, reason: str) -> None:
    config = PATIENT if cache is None else HASTY
    work = work_for(config)
    async with peers(cache) as connected:
        await lease_of(work, MODEL, None, tokenizer_pb2.PrepareResponse(token_ids=[1]), connected, config)
    report = work.log_stages.in_order()[3]
    assert (report.fallback, report.reason) == ("cold", reason)


@pytest.mark.parametrize(("cache", "reason"), [(None, "CACHE_UNAVAILABLE"), (Cache(silent=True), "CACHE_TOO_SLOW")])
async def test_the_command_is_told_that_the_cache_is_away_and_not_the_gateway(
    cache: Cache | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_servicer, "SHARE", 0.02)

    class Servicer(SessionsServicer):
        async def _tenant(self, context: Any) -> str:
            return "t"

    async with peers(cache) as connected:
        server = grpc.aio.server(interceptors=[CallInterceptor("")])
        gateway, corrections = cast("Any", SimpleNamespace()), cast("Any", NothingCollected())
        servicer = Servicer(gateway, connected, GatewayConfig(), corrections)
        sessions_pb2_grpc.add_SessionsServiceServicer_to_server(servicer, server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        connection = Connection(address=address, api_key="k", timeout_s=20.0)
        async with connection.channel() as channel:
            stub = sessions_pb2_grpc.SessionsServiceStub(channel)
            for call in (
                stub.GetSession(sessions_pb2.GetSessionRequest(session_id="s"), timeout=20.0),
                stub.Forget(sessions_pb2.ForgetRequest(session_id="s"), timeout=20.0),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call
                told = connection.explain(refused.value)
                assert told.exit_code == Exit.REJECTED
                assert reason in str(told)
                assert "cache service" in str(told)
        await server.stop(None)
