"""The models whose text this process handles."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from services.tokenizer.loaded_model import LoadedModel, load_model
from stagemesh.models.store import locate
from stagemesh.runtime.errors import NotFound, Unavailable
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


def names_to_load(config: MeshConfig) -> list[str]:
    """Every model that an engine of this mesh serves, the shadow candidate included."""
    candidate = [config.shadow.candidate] if config.shadow.candidate else []
    return list(dict.fromkeys([*config.serve, *candidate]))


class ModelSet:
    def __init__(self, config: MeshConfig, library: str) -> None:
        self._config = config
        self._library = library
        self._models: Mapping[str, LoadedModel] = {}

    async def load(self) -> None:
        """Half a second per model. Raises ModelError with a sentence for the operator."""
        models: dict[str, LoadedModel] = {}
        for name in names_to_load(self._config):
            model = models[name] = await asyncio.to_thread(load_model, locate(self._config, name), self._library)
            log.info(
                "tokenizer loaded",
                model=name,
                library=model.encoder.library,
                vocab_size=model.file.vocab_size,
                tokenizer_hash=model.file.tokenizer_hash,
            )
        self._models = models

    def find(self, name: str) -> LoadedModel:
        """By name or alias; empty for the default. Raises NotFound MODEL_NOT_FOUND, or Unavailable while loading."""
        if not self._models:
            raise Unavailable("TOKENIZER_STARTING", "the tokenizer is loading its models", retry_after_ms=500)
        model = self._models.get(self._config.resolve_model(name) or "")
        if model is None:
            known = ", ".join(sorted(self._models))
            raise NotFound("MODEL_NOT_FOUND", f"no model {name[:128]!r} is served; served are {known}", field="model")
        return model
