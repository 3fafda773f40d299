"""The operator's way to the engines' adapters: by the mesh's own token, on all engines or on some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh, require_mesh
from stagemesh.cli.settings_option import read_mesh_config
from stagemesh.runtime.channel import MESH_TOKEN_KEY, dial
from stagemesh.runtime.errors import from_rpc

LIST_TIMEOUT_S = 10.0
LOAD_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class EngineAddress:
    name: str
    address: str


def find_engines(state: Path | None, config: Path | None, names: Sequence[str]) -> tuple[list[EngineAddress], str]:
    """The engines of the running mesh, or of the configuration, and the mesh's token. Raises CommandError."""
    where, record = find_mesh(state)
    if record is not None:
        engines = [
            EngineAddress(process.name, process.address)
            for process in record.processes
            if process.name.startswith("engine") and process.address
        ]
        token = record.token
    else:
        if config is None:
            require_mesh(where)
        mesh = read_mesh_config(config)
        engines = [EngineAddress(address, address) for address in mesh.addresses.engine]
        token = mesh.mesh_token.get_secret_value()
    known = {engine.name for engine in engines}
    if unknown := sorted({*names} - known):
        raise CommandError(f"there is no engine {unknown[0]!r}; there are {', '.join(sorted(known))}", Exit.USAGE)
    return [engine for engine in engines if not names or engine.name in names], token


class AdapterCalls:
    """Calls to several engines. Raises CommandError in words for every failed call."""

    def __init__(self, engines: Sequence[EngineAddress], token: str) -> None:
        self._engines = engines
        self._metadata = ((MESH_TOKEN_KEY, token),) if token else ()

    async def listed(self) -> dict[str, list[engine_pb2.Adapter]]:
        """What each engine holds, by its name."""
        found = await asyncio.gather(*(self._list(engine) for engine in self._engines))
        return dict(zip((engine.name for engine in self._engines), found, strict=True))

    async def load(self, name: str, path: str, generation: int) -> dict[str, engine_pb2.Adapter]:
        """Load an adapter on each engine, under one generation on all."""
        before = await self.listed()
        first, *others = self._engines
        loaded = {first.name: await self._load(first, name, path, generation)}
        newest = max(_generation(adapters, name) for adapters in before.values())
        if newest > loaded[first.name].generation:  # another engine is ahead
            loaded[first.name] = await self._load(first, name, path, newest + 1)
        chosen = loaded[first.name]
        for engine in others:
            held = _current(before[engine.name], name)
            is_same = held is not None and (held.generation, held.revision) == (chosen.generation, chosen.revision)
            loaded[engine.name] = (
                held if held is not None and is_same else await self._load(engine, name, path, chosen.generation)
            )
        return loaded

    async def unload(self, name: str, wait_s: float) -> dict[str, int]:
        """Unload an adapter from the engines that hold it; gives how many sequences still had it after `wait_s`."""
        held = [engine for engine, adapters in (await self.listed()).items() if _current(adapters, name) is not None]
        if not held:
            raise CommandError(f"no engine holds an adapter {name!r}", Exit.REJECTED)
        engines = [engine for engine in self._engines if engine.name in held]
        left = await asyncio.gather(*(self._unload(engine, name, wait_s) for engine in engines))
        return dict(zip(held, left, strict=True))

    async def _list(self, engine: EngineAddress) -> list[engine_pb2.Adapter]:
        async with self._stub(engine) as stub:
            request = engine_pb2.ListAdaptersRequest()
            answer = await stub.ListAdapters(request, timeout=LIST_TIMEOUT_S, metadata=self._metadata)
            return list(answer.adapters)

    async def _load(self, engine: EngineAddress, name: str, path: str, generation: int) -> engine_pb2.Adapter:
        async with self._stub(engine) as stub:
            request = engine_pb2.LoadAdapterRequest(name=name, path=path, generation=generation)
            return (await stub.LoadAdapter(request, timeout=LOAD_TIMEOUT_S, metadata=self._metadata)).adapter

    async def _unload(self, engine: EngineAddress, name: str, wait_s: float) -> int:
        async with self._stub(engine) as stub:
            request = engine_pb2.UnloadAdapterRequest(name=name)
            return (await stub.UnloadAdapter(request, timeout=wait_s, metadata=self._metadata)).remaining

    @asynccontextmanager
    async def _stub(self, engine: EngineAddress) -> AsyncIterator[engine_pb2_grpc.EngineServiceStub]:
        channel = dial((engine.address,))
        try:
            yield engine_pb2_grpc.EngineServiceStub(channel)
        except grpc.aio.AioRpcError as failed:
            error = from_rpc(failed)
            if error.reason == "UNAVAILABLE":
                raise CommandError(f"{engine.name} does not answer at {engine.address}", Exit.UNREACHABLE) from None
            raise CommandError(f"{engine.name}: {error.reason}: {error.message}", Exit.REJECTED) from None
        finally:
            await channel.close()


def _current(adapters: Sequence[engine_pb2.Adapter], name: str) -> engine_pb2.Adapter | None:
    return next((adapter for adapter in adapters if adapter.name == name and not adapter.retiring), None)


def _generation(adapters: Sequence[engine_pb2.Adapter], name: str) -> int:
    return max((adapter.generation for adapter in adapters if adapter.name == name), default=0)


def as_json(adapters: Mapping[str, Sequence[engine_pb2.Adapter]]) -> list[dict[str, object]]:
    """One object for each adapter on each engine."""
    return [
        {
            "engine": engine,
            "name": adapter.name,
            "generation": adapter.generation,
            "revision": adapter.revision,
            "rank": adapter.rank,
            "targets": list(adapter.targets),
            "bytes": adapter.bytes,
            "loaded_unix_s": adapter.loaded_unix_us / 1e6,
            "sequences": adapter.sequences,
            "retiring": adapter.retiring,
            "path": adapter.path,
        }
        for engine, held in adapters.items()
        for adapter in held
    ]
