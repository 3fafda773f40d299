"""Where the gateway is, how it is called, and what its errors mean for the command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc
from grpc_status import rpc_status

from stagemesh.api.gateway.v1 import gateway_pb2_grpc
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh
from stagemesh.cli.supervisor.mesh_settings import reachable
from stagemesh.cli.supervisor.ports import split_address
from stagemesh.runtime.channel import dial
from stagemesh.runtime.errors import Cancelled, DeadlineExceeded, StagemeshError, from_rpc

DEFAULT_ADDRESS = "127.0.0.1:50051"

Stub = gateway_pb2_grpc.GatewayServiceStub


@dataclass(frozen=True, kw_only=True)
class Connection:
    address: str
    api_key: str
    timeout_s: float
    traceparent: str = ""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        trace = (("traceparent", self.traceparent),) if self.traceparent else ()
        return (("authorization", f"Bearer {self.api_key}"), *trace)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Stub]:
        """A stub of the gateway. Raises CommandError for what is no address."""
        async with self.channel() as channel:
            yield gateway_pb2_grpc.GatewayServiceStub(channel)

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """A channel to the gateway. Raises CommandError for what is no address."""
        if "/" in self.address:
            raise CommandError(f"--address: {self.address!r} is not an address of the form host:port", Exit.USAGE)
        try:
            split_address(self.address)
            channel = dial((self.address,))
        except ValueError as error:
            raise CommandError(f"--address: {error}", Exit.USAGE) from None
        try:
            yield channel
        finally:
            await channel.close()

    def explain(self, error: grpc.aio.AioRpcError) -> CommandError:
        """The sentence and exit code for a failed call."""
        return explain(self, self.typed(error))

    def typed(self, error: grpc.aio.AioRpcError) -> StagemeshError:
        """The error of a failed call; a deadline that passed at this end gets a sentence of its own."""
        found = from_rpc(error)
        if isinstance(found, DeadlineExceeded) and rpc_status.from_call(cast(grpc.Call, error)) is None:
            return DeadlineExceeded(found.reason, f"no end within {self.timeout_s:g} s; --timeout gives more time")
        return found


def explain(connection: Connection, error: StagemeshError) -> CommandError:
    if (
        error.code is grpc.StatusCode.UNAVAILABLE and error.reason == "UNAVAILABLE"
    ):  # no reason of ours: no answer at all
        return CommandError(
            f"no gateway answers at {connection.address}; start a mesh with `stagemesh up` or name one with --address",
            Exit.UNREACHABLE,
        )
    retry = f" (retry after {error.retry_after_ms / 1000:g} s)" if error.retry_after_ms else ""
    return CommandError(f"{error.reason}: {error.message}{retry}", exit_of(error))


def exit_of(error: StagemeshError) -> Exit:
    if isinstance(error, DeadlineExceeded):
        return Exit.EXPIRED
    return Exit.CANCELLED if isinstance(error, Cancelled) else Exit.REJECTED


def gateway_address(state: Path | None) -> str:
    """The address of the mesh that runs on the state folder, or the default one."""
    _, record = find_mesh(state)
    return reachable(record.grpc_address) if record else DEFAULT_ADDRESS
