"""Real servers for the tests of cache, validator and corrector."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import redis

from stagemesh.embedded import valkey
from stagemesh.runtime.channel import dial
from stagemesh.runtime.errors import StagemeshError, from_rpc
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import Service, bind, build_server


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
