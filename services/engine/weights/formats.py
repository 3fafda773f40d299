"""Which format each kind of weight matrix is held in, by precision mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from services.engine.config import WeightFormats
from services.engine.modes import Mode

Kind = Literal["embedding", "head", "attention", "mlp"]
NAMES: Mapping[str, str] = {"int4": "Q4_1", "int8": "Q8_0", "bf16": "BF16"}
"""Configuration → GGML type name."""
QUANTIZED = frozenset({"Q4_0", "Q4_1", "Q8_0"})
"""What the kernels multiply with as it is stored: anything else would lose precision and gain nothing."""


def chosen_format(mode: Mode, kind: Kind, stored: Sequence[str], turbo: WeightFormats) -> str:
    """The format of a matrix whose parts are stored in `stored`."""
    if mode == "precise":
        return stored[0] if len(set(stored)) == 1 and stored[0] in QUANTIZED else "BF16"
    if QUANTIZED.issuperset(stored):
        return stored[0] if len(set(stored)) == 1 else "Q8_0" if "Q8_0" in stored else "Q4_1"
    return "Q8_0" if mode == "standard" else NAMES[getattr(turbo, kind)]
