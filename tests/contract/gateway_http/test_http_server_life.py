"""The server's life: listening, probes, draining, stopping."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from http_support import FakeGateway, eventually, final_of, never

from services.gateway.config import GatewayConfig
from services.gateway.http.server import HttpServer
from services.gateway.running import RunningRequest
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.config import ConfigError

HELLO = {"messages": [{"role": "user", "content": "hi"}]}
URL = "/v1/chat/completions"


def client_of(server: HttpServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{server.address}", headers={"authorization": "Bearer dev"}, timeout=20)


async def test_probes_and_metrics(config: GatewayConfig) -> None:
    gateway = FakeGateway(config)
    server = HttpServer(gateway, config)
    await server.start()
    async with client_of(server) as http:
        assert (await http.get("/healthz")).json() == {"status": "alive"}
        assert (await http.get("/readyz")).json() == {"status": "ready", "parts": {}}
        gateway.problems = {"engine": "no engine is up"}
        reply = await http.get("/readyz")
        assert (reply.status_code, reply.json()["parts"]) == (503, {"engine": "no engine is up"})
        await http.post(URL, json=HELLO)
        await http.get("/secret/path")
        text = (await http.get("/metrics")).text
        assert f'stagemesh_http_requests_total{{method="POST",route="{URL}",status="200"}}' in text
        assert 'route="unknown"' in text
        assert "secret" not in text
    await server.stop()


async def test_a_taken_port_is_said_with_the_option_that_changes_it(config: GatewayConfig) -> None:
    first = HttpServer(FakeGateway(config), config)
    await first.start()
    second = HttpServer(FakeGateway(config), config.model_copy(update={"http_listen": first.address}))
    with pytest.raises(ConfigError, match=f"{first.address}.*--http-port"):
        await second.start()
    await second.stop()
    await first.stop()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "127.0.0.1:x", "no.such.host.invalid:80"])
async def test_an_address_that_cannot_be_used_is_a_configuration_error(config: GatewayConfig, address: str) -> None:
    with pytest.raises(ConfigError, match=address.replace(".", r"\.")):
        await HttpServer(FakeGateway(config), config.model_copy(update={"http_listen": address})).start()


async def test_a_drain_finishes_what_runs_and_takes_nothing_new(config: GatewayConfig) -> None:
    gateway = FakeGateway(config)
    server = HttpServer(gateway, config)
    await server.start()
    free = asyncio.Event()

    async def waiting(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        await free.wait()
        running.publish(final=final_of(request, running))

    gateway.script = waiting
    async with client_of(server) as http:
        running = asyncio.create_task(http.post(URL, json=HELLO))
        await eventually(lambda: bool(gateway.submitted))
        draining = asyncio.create_task(server.drain(20))
        await asyncio.sleep(0)
        refused = await http.post(URL, json=HELLO)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert refused.headers["retry-after"] == "1"
        assert (await http.get("/readyz")).status_code == 503
        free.set()
        assert (await running).status_code == 200
        assert await draining == 0
    await server.stop()


async def test_a_stop_tells_those_whose_requests_still_run(config: GatewayConfig) -> None:
    gateway = FakeGateway(config)
    server = HttpServer(gateway, config)
    await server.start()
    gateway.script = never
    async with client_of(server) as http:
        whole = asyncio.create_task(http.post(URL, json=HELLO))
        stream = asyncio.create_task(http.post(URL, json={**HELLO, "stream": True}))
        await eventually(lambda: len(gateway.submitted) == 2)
        assert await server.drain(0.2) == 2
        await server.stop()
        assert ((await whole).status_code, (await whole).json()["error"]["code"]) == (503, "gateway_stopped")
        assert '"code":"gateway_stopped"' in (await stream).text
    finals = [await running.final() for running in gateway.requests.values()]
    assert {final.outcome for final in finals} == {common_pb2.OUTCOME_CANCELLED}
