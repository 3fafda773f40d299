"""The engine as a service process: what `stagemesh.runtime.server` runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc

from services.engine.config import EngineConfig
from services.engine.engine import Engine, load_model
from services.engine.servicer import EngineServicer
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.models.store import locate
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class EngineService:
    service_names: Sequence[str] = (engine_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name,)

    def __init__(self, config: EngineConfig, mesh: MeshConfig) -> None:
        self._config = config
        self._mesh = mesh
        self._servicer = EngineServicer(mesh.drain_grace_s)
        self._warming: asyncio.Task[None] | None = None

    def register(self, server: grpc.aio.Server) -> None:
        engine_pb2_grpc.add_EngineServiceServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Load the model and run a step. Raises ModelError when the model cannot be used."""
        engine = await asyncio.to_thread(self._load)
        engine.start()
        self._servicer.engine = engine
        self._warming = asyncio.create_task(engine.warm_up())

    async def drain(self, grace_s: float) -> None:
        """Let running sequences end; what is left ends with ABORT and ENGINE_STOPPING, to be continued elsewhere."""
        if (engine := self._servicer.engine) is None:
            return
        engine.registry.drain()
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        if remaining := await engine.registry.wait_idle(grace_s):
            log.warning("sequences handed back unfinished", remaining=remaining)
        await engine.stop(Unavailable("ENGINE_STOPPING", "the engine stops; another can continue the sequence"))
        self._servicer.close()

    async def close(self) -> None:
        if (engine := self._servicer.engine) is not None:
            engine.close()

    def _load(self) -> Engine:
        files = locate(self._mesh, self._config.model)
        config = with_adapter_folder(self._config, self._mesh.state_dir)
        return Engine(load_model(files, config), config, self._mesh.kv_url, self._manifest_path())

    def _manifest_path(self) -> Path | None:
        """One for each engine of the mesh; its port stays the same."""
        if self._mesh.state_dir is None:
            return None
        _, _, port = (self._config.listen or self._mesh.addresses.engine[0]).rpartition(":")
        return self._mesh.state_dir / "loaded-adapters" / f"{port}.json"


def with_adapter_folder(config: EngineConfig, state_dir: Path | None) -> EngineConfig:
    """The configuration with `adapters` in the state folder where it names no folders of its own."""
    if config.adapters.folders is not None or state_dir is None:
        return config
    adapters = config.adapters.model_copy(update={"folders": (str(state_dir / "adapters"),)})
    return config.model_copy(update={"adapters": adapters})
