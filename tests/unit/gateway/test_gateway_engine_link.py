"""What an engine is told to forget, whatever becomes of the call to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from services.gateway import engine_link, erasures
from services.gateway.engine_link import EngineLink
from services.gateway.erasures import Erasures
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.runtime.errors import Unavailable


class Engine(engine_pb2_grpc.EngineServiceServicer):
    """Lives on while its calls break."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.breaks = asyncio.Event()
        self.hears = True
        self.answers = asyncio.Event()
        self.answers.set()

    async def Describe(self, request: object, context: object) -> engine_pb2.DescribeResponse:
        await self.answers.wait()
        return engine_pb2.DescribeResponse(model=common_pb2.ModelIdentity(model="m"))

    async def Run(
        self, requests: AsyncIterator[engine_pb2.RunRequest], context: grpc.aio.ServicerContext[object, object]
    ) -> AsyncIterator[engine_pb2.RunResponse]:
        reading = asyncio.create_task(self._read(requests))
        await self.breaks.wait()
        self.breaks.clear()
        reading.cancel()
        for response in ():
            yield response
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the call broke")

    async def WatchLoad(self, request: object, context: object) -> AsyncIterator[engine_pb2.WatchLoadResponse]:
        yield engine_pb2.WatchLoadResponse()
        await asyncio.Event().wait()

    async def _read(self, requests: AsyncIterator[engine_pb2.RunRequest]) -> None:
        async for request in requests:
            if self.hears:
                self.told.put_nowait(request.forget.tenant_id)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine, server = Engine(), grpc.aio.server()
    engine_pb2_grpc.add_EngineServiceServicer_to_server(engine, server)
    engine.port = server.add_insecure_port("127.0.0.1:0")  # type: ignore[attr-defined]
    await server.start()
    yield engine
    await server.stop(0)


@pytest_asyncio.fixture
async def link(engine: Engine) -> AsyncIterator[EngineLink]:
    link = EngineLink(f"127.0.0.1:{engine.port}", max_message_bytes=65_536)  # type: ignore[attr-defined]
    yield link
    await link.close()


async def until(link: EngineLink, ready: bool) -> None:
    async with asyncio.timeout(20):
        while link.ready is not ready:
            await asyncio.sleep(0.01)


async def told(engine: Engine) -> str:
    async with asyncio.timeout(20):
        return await engine.told.get()


async def test_an_engine_is_told_after_a_break_what_was_erased_meanwhile(engine: Engine, link: EngineLink) -> None:
    await until(link, True)
    engine.answers.clear()
    engine.breaks.set()
    await until(link, False)
    await link.forget("t")
    engine.answers.set()
    assert await told(engine) == "t"


async def test_an_erasure_that_was_sent_into_a_call_that_broke_is_sent_again(engine: Engine, link: EngineLink) -> None:
    await until(link, True)
    engine.hears = False
    await link.forget("t")
    await asyncio.sleep(0)
    engine.answers.clear()
    engine.breaks.set()
    await until(link, False)
    engine.hears = True
    engine.answers.set()
    assert await told(engine) == "t"


async def test_an_erasure_that_finds_no_place_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_link, "MAX_COMMANDS", 1)
    monkeypatch.setattr(engine_link, "FORGET_TIMEOUT_S", 0.01)
    link = EngineLink("127.0.0.1:1", max_message_bytes=65_536)
    link._up.set()
    await link.forget("a")
    with pytest.raises(Unavailable):
        await link.forget("b")
    await link.close()


def test_what_an_engine_must_be_told_is_bounded_and_ends() -> None:
    now_s = 0.0
    pending = Erasures(max_tenants=2, clock=lambda: now_s)
    assert pending.add("a")
    assert pending.add("b")
    assert pending.add("a")
    assert not pending.add("c")
    pending.told("b")
    assert pending.to_tell() == ["b", "a"]
    now_s = erasures.TOLD_S
    assert pending.to_tell() == ["a"]
    assert pending.add("c")
