"""Precision modes: how exactly the weights are held that a request is computed with."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["turbo", "standard", "precise"]
"""`turbo`: 4-bit weights with an 8-bit head. `standard`: 8-bit weights. `precise`: bfloat16 weights, float32 sums."""
MODES: tuple[Mode, ...] = get_args(Mode)
