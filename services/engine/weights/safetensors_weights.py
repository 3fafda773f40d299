"""Weights from a folder in Hugging Face layout."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from services.engine.weights.decoder_weights import DecoderWeights, assemble
from services.engine.weights.hf_names import stored_name
from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.model_config import TransformerConfig


def load_safetensors(paths: Sequence[Path], config: TransformerConfig, dtype: torch.dtype) -> DecoderWeights:
    """Read one or more shards. Raises ModelCorrupt when a file is malformed or a tensor lacks or has a wrong shape."""
    with ExitStack() as stack:
        where = {}
        for path in paths:
            try:
                shard = stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelCorrupt(f"{path} cannot be read: {error}") from None
            where.update(dict.fromkeys(shard.keys(), shard))

        def read(name: str) -> torch.Tensor:
            stored = stored_name(name)
            if stored not in where:
                raise ModelCorrupt(f"{paths[0].parent} has no tensor {stored}")
            tensor: torch.Tensor = where[stored].get_tensor(stored)
            return tensor.to(dtype)

        return assemble(config, read)
