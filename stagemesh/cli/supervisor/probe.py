"""Is a process alive, and is it ready?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from stagemesh.cli.supervisor.ports import split_address
from stagemesh.runtime.channel import dial


class Health(IntEnum):
    SILENT = 0
    """No answer in time."""
    ALIVE = 1
    """It answers, but takes no work."""
    READY = 2


class Probe(Protocol):
    async def check(self, timeout_s: float) -> Health:
        """What the process says of itself; SILENT when it says nothing within `timeout_s`."""

    async def close(self) -> None: ...


@dataclass
class GrpcProbe:
    """`grpc.health.v1`: `""` answers when the process is alive, `service` when it is ready."""

    address: str
    service: str
    _channel: grpc.aio.Channel | None = field(default=None, init=False)

    async def check(self, timeout_s: float) -> Health:
        if self._channel is None:
            self._channel = dial((self.address,))
        stub: Any = health_pb2_grpc.HealthStub(self._channel)  # its published types know the blocking form only
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=self.service), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            return Health.ALIVE if error.code() is grpc.StatusCode.NOT_FOUND else Health.SILENT
        return Health.READY if answer.status == health_pb2.HealthCheckResponse.SERVING else Health.ALIVE

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


@dataclass(frozen=True)
class HttpProbe:
    """`GET path`: 2xx is ready, any other answer alive."""

    address: str
    path: str = "/readyz"

    async def check(self, timeout_s: float) -> Health:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._get()
        except (OSError, TimeoutError, ValueError):
            return Health.SILENT

    async def _get(self) -> Health:
        host, port = split_address(self.address)
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {self.path} HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            status_line = await reader.readline()  # HTTP/1.1 200 OK
        finally:
            writer.close()
        if not status_line:
            return Health.SILENT
        return Health.READY if status_line[9:10] == b"2" else Health.ALIVE

    async def close(self) -> None:
        return


@dataclass(frozen=True)
class AllProbes:
    """The worst of several."""

    probes: Sequence[Probe]

    async def check(self, timeout_s: float) -> Health:
        return min(await asyncio.gather(*(probe.check(timeout_s) for probe in self.probes)))

    async def close(self) -> None:
        await asyncio.gather(*(probe.close() for probe in self.probes))
