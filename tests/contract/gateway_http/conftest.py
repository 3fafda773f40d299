"""One HTTP server per test module; and one on uvloop, as in production, in a thread of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator

import httpx
import openai
import pytest
import pytest_asyncio
import uvloop
from http_support import FakeGateway

from services.gateway.config import GatewayConfig
from services.gateway.http.protocol import Limits
from services.gateway.http.server import HttpServer

LIMITS = Limits(head_timeout_s=0.5, max_head_bytes=16_384, linger_s=0.5, max_connections=64)


@pytest.fixture(scope="module")
def config() -> GatewayConfig:
    return GatewayConfig(http_listen="127.0.0.1:0", max_request_bytes=1_048_576, max_choices=4)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(config: GatewayConfig) -> AsyncIterator[tuple[FakeGateway, HttpServer]]:
    gateway = FakeGateway(config)
    server = HttpServer(gateway, config, LIMITS)
    await server.start()
    yield gateway, server
    await server.stop()


@pytest.fixture
def gateway(served: tuple[FakeGateway, HttpServer]) -> Iterator[FakeGateway]:
    served[0].reset()
    yield served[0]
    served[0].reset()


@pytest.fixture
def address(served: tuple[FakeGateway, HttpServer]) -> str:
    return served[1].address


@pytest_asyncio.fixture(loop_scope="module")
async def client(gateway: FakeGateway, address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client as users have it; it may retry once, so that needless retries are seen."""
    async with openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="dev", max_retries=1, timeout=20) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: FakeGateway, address: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": "Bearer dev"}
    async with httpx.AsyncClient(base_url=f"http://{address}", headers=headers, timeout=20) as it:
        yield it


@pytest.fixture
def uvloop_address(config: GatewayConfig) -> Iterator[str]:
    started: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = queue.Queue()

    async def serve() -> None:
        stopped = asyncio.Event()
        server = HttpServer(FakeGateway(config), config, LIMITS)
        await server.start()
        started.put((asyncio.get_running_loop(), stopped, server.address))
        await stopped.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    loop, stopped, address = started.get(timeout=10)
    yield address
    loop.call_soon_threadsafe(stopped.set)
    thread.join(10)
    assert not thread.is_alive()
