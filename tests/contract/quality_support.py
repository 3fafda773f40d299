"""Real servers for the tests of cache, validator and corrector."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc

from stagemesh.embedded import valkey
from stagemesh.runtime.channel import dial
from stagemesh.runtime.errors import StagemeshError, from_rpc
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import Service, bind, build_server

START_S = 60
"""For a process to import its code, start and be ready."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Valkey:
    """A Valkey server that can be killed, paused and started again on its files."""

    def __init__(self, folder: Path, *, fsync: str = "always") -> None:
        self._folder = folder
        self._fsync = fsync
        self._password = valkey.load_password(folder)
        self._port = free_port()
        self.url = valkey.url(self._port, self._password)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = valkey.command(self._folder, self._port, self._password, fsync=self._fsync)
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up_at_s = time.monotonic() + 20
        while True:
            with contextlib.suppress(redis.exceptions.ConnectionError), self.client() as client:
                client.ping()
                return
            assert self._process.poll() is None, "the server ended at its start"
            assert time.monotonic() < give_up_at_s, "the server does not answer"
            time.sleep(0.01)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running_valkey(folder: Path, *, fsync: str = "no") -> Iterator[Valkey]:
    server = Valkey(folder, fsync=fsync)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextlib.asynccontextmanager
async def serving(service: Service) -> AsyncIterator[grpc.aio.Channel]:
    """`service` on a real socket, ready; gives a channel to it."""
    server, _ = build_server(service, MeshConfig())
    port = bind(server, "127.0.0.1:0", "nothing")
    await server.start()
    await service.start()
    channel = dial([f"127.0.0.1:{port}"])
    try:
        yield channel
    finally:
        await channel.close()
        await service.drain(1.0)
        await server.stop(grace=None)
        await service.close()


@contextlib.asynccontextmanager
async def running(name: str, **environment: str) -> AsyncIterator[tuple[subprocess.Popen[bytes], grpc.aio.Channel]]:
    """A service as a process of its own, ready; gives the process and a channel to it."""
    address = f"127.0.0.1:{free_port()}"
    settings = {f"STAGEMESH_{name.upper()}__LISTEN": address, "STAGEMESH_LOG_LEVEL": "WARNING", **environment}
    process = start(name, settings)
    channel = dial([address])
    try:
        await ready(process, channel, f"stagemesh.api.{name}.v1.{name.capitalize()}Service")
        yield process, channel
    finally:
        await channel.close()
        process.kill()
        process.wait()


def start(name: str, settings: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", f"services.{name}"]
    return subprocess.Popen(command, env={**os.environ, **settings}, stderr=subprocess.DEVNULL)


async def ready(process: subprocess.Popen[bytes], channel: grpc.aio.Channel, service: str) -> None:
    give_up_at_s = time.monotonic() + START_S
    while time.monotonic() < give_up_at_s:
        assert process.poll() is None, "the process ended at its start"
        with contextlib.suppress(grpc.aio.AioRpcError):
            check = health_pb2_grpc.HealthStub(channel).Check
            answer = await check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
        await asyncio.sleep(0.05)
    raise AssertionError("the process is not ready")


class Refused:
    """What `refusal` caught."""

    error: StagemeshError


@contextlib.asynccontextmanager
async def refusal() -> AsyncIterator[Refused]:
    """Catches the typed error of the calls inside; fails when there is none."""
    refused = Refused()
    try:
        yield refused
    except grpc.RpcError as error:
        refused.error = from_rpc(error)
        return
    raise AssertionError("the call was not refused")
