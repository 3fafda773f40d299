"""Rotary position tables."""

from __future__ import annotations

import math

import torch

from stagemesh.models.model_config import RopeScaling, TransformerConfig


def rotary_tables(
    config: TransformerConfig, factors: torch.Tensor | None, num_positions: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, [num_positions, head_dim / 2] each, computed in float32."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    if config.rope_scaling is not None:
        frequencies = _scaled(frequencies, config.rope_scaling, factors)
    angles = torch.outer(torch.arange(num_positions).float(), frequencies)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _scaled(frequencies: torch.Tensor, scaling: RopeScaling, factors: torch.Tensor | None) -> torch.Tensor:
    if scaling.kind == "factors":
        assert factors is not None, "the file's factors are loaded with the weights"
        return frequencies / factors
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    # llama3: long waves are slowed by `factor`, short ones kept, those between blended by their wavelength.
    turns = scaling.original_context_length * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / scaling.factor)
