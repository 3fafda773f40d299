"""Weights from a GGUF file, dequantized, for the torch forms."""

from __future__ import annotations

import numpy as np
import torch

from services.engine.weights.decoder_weights import DecoderWeights, assemble
from services.engine.weights.gguf_names import stored_name, unpermute
from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.gguf_file import GgufFile
from stagemesh.models.model_config import TransformerConfig


def load_gguf(file: GgufFile, config: TransformerConfig, dtype: torch.dtype) -> DecoderWeights:
    """Raises ModelCorrupt when a tensor lacks or has the wrong shape, UnsupportedModel for unknown formats."""

    def read(name: str) -> torch.Tensor:
        stored = stored_name(name)
        if stored not in file.tensors:
            raise ModelCorrupt(f"{file.path} has no tensor {stored}")
        values = file.tensor(stored)
        kind = name.rpartition(".")[2]
        if config.permuted_qk and kind in {"q", "q_bias"}:
            values = unpermute(values, config.num_heads)
        elif config.permuted_qk and kind in {"k", "k_bias"}:
            values = unpermute(values, config.num_kv_heads)
        return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)

    return assemble(config, read)
