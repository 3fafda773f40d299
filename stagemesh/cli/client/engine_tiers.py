"""What the engines of a running mesh hold of keys and values in their pools and in host memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc

from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.cli.mesh_access import find_mesh
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial

TIMEOUT_S = 5.0


async def engine_loads(state: Path | None) -> list[engine_pb2.WatchLoadResponse]:
    """The load of each engine that answers; none where no mesh of this machine runs."""
    _, record = find_mesh(state)
    if record is None:
        return []
    addresses = [process.address for process in record.processes if process.name.startswith("engine")]
    return await loads_of(addresses, record.token)


async def loads_of(addresses: Sequence[str], token: str) -> list[engine_pb2.WatchLoadResponse]:
    """An engine that is away is left out."""
    found = await asyncio.gather(*(_load(address, token) for address in addresses))
    return [load for load in found if load is not None]


async def _load(address: str, token: str) -> engine_pb2.WatchLoadResponse | None:
    channel = dial((address,))
    try:
        stub = engine_pb2_grpc.EngineServiceStub(channel)
        metadata = ((MESH_TOKEN_KEY, token),) if token else ()
        loads = stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=TIMEOUT_S, metadata=metadata)
        async for load in loads:
            loads.cancel()
            return load
    except grpc.aio.AioRpcError:
        return None
    finally:
        await channel.close()
    return None
