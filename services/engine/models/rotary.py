"""Rotary position tables."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from stagemesh.models.model_config import RopeScaling, TransformerConfig

Floats = npt.NDArray[np.float32]


def rotary_tables(config: TransformerConfig, factors: Floats | None, num_positions: int) -> tuple[Floats, Floats]:
    """Cosines and sines, [num_positions, head_dim / 2] each, computed in float32 as the models were trained."""
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
    frequencies: Floats = (1 / np.float32(config.rope_theta) ** exponents).astype(np.float32)
    if config.rope_scaling is not None:
        frequencies = _scaled(frequencies, config.rope_scaling, factors)
    angles = np.outer(np.arange(num_positions, dtype=np.float32), frequencies)
    return np.cos(angles), np.sin(angles)


def _scaled(frequencies: Floats, scaling: RopeScaling, factors: Floats | None) -> Floats:
    if scaling.kind == "factors":
        assert factors is not None, "the file's factors are loaded with the weights"
        return frequencies / factors
    if scaling.kind == "linear":
        return frequencies / np.float32(scaling.factor)
    # llama3: long waves are slowed by `factor`, short ones kept, those between blended by their wavelength.
    turns = scaling.original_context_length * frequencies / np.float32(2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept: Floats = ((turns - scaling.low_freq_factor) / span).clip(0, 1)
    return frequencies * (kept + (1 - kept) / np.float32(scaling.factor))
