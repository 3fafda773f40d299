"""Calls of the gateway's DeferredService: as an operator by the mesh's own token, or as a tenant by its key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc

from stagemesh.api.gateway.v1 import deferred_pb2, deferred_pb2_grpc
from stagemesh.cli.client.connection import Connection, gateway_address
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh
from stagemesh.cli.settings_option import read_mesh_config
from stagemesh.cli.supervisor.mesh_settings import reachable
from stagemesh.runtime.channel import MESH_TOKEN_KEY

TIMEOUT_S = 60.0

T = TypeVar("T")

Stub = deferred_pb2_grpc.DeferredServiceStub
Method = Callable[[Stub, dict[str, Any]], Awaitable[T]]

STATES = {
    deferred_pb2.DEFERRED_STATE_WAITING: "waiting",
    deferred_pb2.DEFERRED_STATE_RUNNING: "running",
    deferred_pb2.DEFERRED_STATE_DEAD: "dead",
}


def ask(state: Path | None, config: Path | None, address: str | None, tenant_key: str, method: Method[T]) -> T:
    """The result of `method(stub, options)`. Raises CommandError in words."""
    connection, metadata = _connection(state, config, address, tenant_key)

    async def call() -> T:
        async with connection.channel() as channel:
            try:
                return await method(Stub(channel), {"timeout": connection.timeout_s, "metadata": metadata})
            except grpc.aio.AioRpcError as error:
                raise connection.explain(error) from None

    return asyncio.run(call())


def _connection(
    state: Path | None, config: Path | None, address: str | None, tenant_key: str
) -> tuple[Connection, tuple[tuple[str, str], ...]]:
    """Where the gateway is, and as whom it is called."""
    if tenant_key:
        where = address or gateway_address(state)
        connection = Connection(address=where, api_key=tenant_key, timeout_s=TIMEOUT_S)
        return connection, connection.metadata
    where_state, record = find_mesh(state)
    if record is not None:
        found, token = reachable(record.grpc_address), record.token
    else:
        mesh = read_mesh_config(config)
        found, token = mesh.addresses.gateway, mesh.mesh_token.get_secret_value()
    if not token:
        raise CommandError(
            f"no mesh runs on {where_state.path}, and the configuration has no mesh_token; "
            "name another folder with --state, or be a tenant with --tenant-key",
            Exit.UNREACHABLE,
        )
    return Connection(address=address or found, api_key="", timeout_s=TIMEOUT_S), ((MESH_TOKEN_KEY, token),)
