"""The operator's way to an internal service: by the mesh's own token."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import grpc

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, require_mesh
from stagemesh.cli.settings_option import read_mesh_config
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial
from stagemesh.runtime.errors import from_rpc

Metadata = tuple[tuple[str, str], ...]
Service = Literal["cache", "validator"]


@asynccontextmanager
async def service_channel(
    service: Service, state: Path | None, config: Path | None
) -> AsyncIterator[tuple[grpc.aio.Channel, Metadata]]:
    """A channel and the metadata of its calls. Raises CommandError in words for every failed call."""
    address, token = _where(service, state, config)
    channel = dial((address,))
    try:
        yield channel, ((MESH_TOKEN_KEY, token),) if token else ()
    except grpc.aio.AioRpcError as failed:
        error = from_rpc(failed)
        if error.reason == "UNAVAILABLE":
            raise CommandError(
                f"no {service} service answers at {address}; is the mesh up?", Exit.UNREACHABLE
            ) from None
        again = f"; try again in {error.retry_after_ms / 1000:.0f} s" if error.retry_after_ms >= 1000 else ""
        raise CommandError(f"{error.reason}: {error.message}{again}", Exit.REJECTED) from None
    finally:
        await channel.close()


def _where(service: Service, state: Path | None, config: Path | None) -> tuple[str, str]:
    """The service's address and the mesh's token: of the running mesh, else of the configuration."""
    where, record = find_mesh(state)
    if record is not None:
        found = [process.address for process in record.processes if process.name.startswith(service)]
        if found:
            return found[0], record.token
    # Either of these in the environment says where the service is, e.g. in a container.
    if config is None and not {"STAGEMESH_CONFIG", f"STAGEMESH_ADDRESSES__{service.upper()}"} & os.environ.keys():
        require_mesh(where)
    mesh = read_mesh_config(config)
    addresses: list[str] = getattr(mesh.addresses, service)
    return addresses[0], mesh.mesh_token.get_secret_value()
