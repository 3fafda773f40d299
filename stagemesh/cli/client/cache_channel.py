"""The operator's way to the cache service: by the mesh's own token."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, require_mesh
from stagemesh.cli.settings_option import read_mesh_config
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial
from stagemesh.runtime.errors import from_rpc

Metadata = tuple[tuple[str, str], ...]
CONFIGURED_BY = frozenset({"STAGEMESH_CONFIG", "STAGEMESH_ADDRESSES__CACHE"})
"""Any of these in the environment says where the cache service is, e.g. in a container."""


@asynccontextmanager
async def cache_channel(state: Path | None, config: Path | None) -> AsyncIterator[tuple[grpc.aio.Channel, Metadata]]:
    """A channel and the metadata of its calls. Raises CommandError in words for every failed call."""
    address, token = _where(state, config)
    channel = dial((address,))
    try:
        yield channel, ((MESH_TOKEN_KEY, token),) if token else ()
    except grpc.aio.AioRpcError as failed:
        error = from_rpc(failed)
        if error.reason == "UNAVAILABLE":
            raise CommandError(f"no cache service answers at {address}; is the mesh up?", Exit.UNREACHABLE) from None
        again = f"; try again in {error.retry_after_ms / 1000:.0f} s" if error.retry_after_ms >= 1000 else ""
        raise CommandError(f"{error.reason}: {error.message}{again}", Exit.REJECTED) from None
    finally:
        await channel.close()


def _where(state: Path | None, config: Path | None) -> tuple[str, str]:
    """The cache service's address and the mesh's token: of the running mesh, else of the configuration."""
    where, record = find_mesh(state)
    if record is not None:
        found = [process.address for process in record.processes if process.name.startswith("cache")]
        if found:
            return found[0], record.token
    if config is None and not CONFIGURED_BY & os.environ.keys():
        require_mesh(where)
    mesh = read_mesh_config(config)
    return mesh.addresses.cache[0], mesh.mesh_token.get_secret_value()
