"""The tokenizer service as a process part: its models, its threads, its life."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from services.tokenizer.config import TokenizerConfig
from services.tokenizer.model_set import ModelSet
from services.tokenizer.servicer import TokenizerServicer
from services.tokenizer.work_pool import WorkPool
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.mesh_config import MeshConfig


class TokenizerService:
    service_names: Sequence[str] = (tokenizer_pb2.DESCRIPTOR.services_by_name["TokenizerService"].full_name,)

    def __init__(self, mesh: MeshConfig, config: TokenizerConfig) -> None:
        self._models = ModelSet(mesh, config.library)
        self._pool = WorkPool(threads=config.threads, max_waiting=config.max_waiting, inline_chars=config.inline_chars)
        self._config = config

    def register(self, server: grpc.aio.Server) -> None:
        servicer = TokenizerServicer(self._models, self._pool, self._config)
        tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(servicer, server)

    async def start(self) -> None:
        """Loads the models; raises ModelError, which ends the process with its sentence."""
        await self._models.load()

    async def drain(self, grace_s: float) -> None:
        """Nothing to hand over: calls are short, and a detokenization stream is opened anew elsewhere."""

    async def close(self) -> None:
        await self._pool.close()
