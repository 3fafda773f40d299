"""The corrector as a process part: its sandbox, its engines and its life."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from services.corrector.adapters.beside import AdaptersBeside
from services.corrector.adapters.watch import AdapterWatch
from services.corrector.config import CorrectorConfig
from services.corrector.corrector import Corrector
from services.corrector.engine_client import EngineClient
from services.corrector.ranking.ranker import Ranker, configured_adapter
from services.corrector.regenerate import Regenerator
from services.corrector.renderer import RendererSet
from services.corrector.repairer import Repairer
from services.corrector.servicer import CorrectorServicer
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.checker import Checker
from stagemesh.validation.sandbox import Sandbox
from stagemesh.validation.sets.sets import AnchorSets


class CorrectorService:
    service_names: Sequence[str] = (corrector_pb2.DESCRIPTOR.services_by_name["CorrectorService"].full_name,)

    def __init__(self, mesh: MeshConfig, config: CorrectorConfig) -> None:
        self._config = config
        self._sandbox = Sandbox("services.corrector.worker", config.sandbox())
        self._engines = EngineClient(mesh.addresses.engine, mesh.max_message_bytes)
        repairer = Repairer(Checker(self._sandbox, config.checker()))
        renderers = RendererSet(mesh)
        regenerator = Regenerator(renderers, self._engines, config)
        default = configured_adapter(config.ranking)
        ranker = Ranker(repairer.questions, renderers, self._engines, config.ranking, default)
        self._sets: AnchorSets | None = None
        self._watch: AdapterWatch | None = None
        self._beside: AdaptersBeside | None = None
        if mesh.ledger_url:
            sets = config.anchor_sets
            self._sets = AnchorSets(mesh.ledger_url, sets, service="corrector", state_dir=mesh.state_dir)
        if not mesh.ledger_url:
            self._corrector = Corrector(repairer, regenerator, config, ranker)
            return
        self._watch = AdapterWatch(mesh.ledger_url, config.adapters)
        watch = self._watch
        self._beside = AdaptersBeside(ranker, lambda: watch.in_use, watch.tallies, config.adapters)
        self._corrector = Corrector(repairer, regenerator, config, self._beside, self._beside.told)

    def register(self, server: grpc.aio.Server) -> None:
        corrector_pb2_grpc.add_CorrectorServiceServicer_to_server(
            CorrectorServicer(self._corrector, self._config, self._sets), server
        )

    async def start(self) -> None:
        """Ready without engines and model files: they are needed for regenerations only."""
        await self._sandbox.warm_up()
        if self._sets is not None:
            self._sets.start()
        if self._watch is not None:
            self._watch.start()

    async def drain(self, grace_s: float) -> None:
        """Nothing to hand over: calls end within their deadlines."""

    async def close(self) -> None:
        if self._beside is not None:
            await self._beside.close()
        if self._watch is not None:
            await self._watch.close()
        if self._sets is not None:
            await self._sets.close()
        await self._engines.close()
        await self._sandbox.close()
