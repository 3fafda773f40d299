"""Load a model's weights from whichever files it has."""

from __future__ import annotations

import torch

from services.engine.weights.decoder_weights import DecoderWeights
from services.engine.weights.gguf_weights import load_gguf
from services.engine.weights.safetensors_weights import load_safetensors
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.store import ModelFiles


def load_weights(files: ModelFiles, config: TransformerConfig, dtype: torch.dtype) -> DecoderWeights:
    """Raises ModelCorrupt or UnsupportedModel with a sentence for the operator."""
    if files.kind == "gguf":
        return load_gguf(open_gguf(files.path), config, dtype)
    return load_safetensors(files.weight_paths(), config, dtype)
