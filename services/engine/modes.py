"""Precision modes: how exactly the weights are held that a request is computed with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.precision_mode import mode_name, mode_unavailable

Mode = Literal["turbo", "standard", "precise"]
"""`turbo`: 4-bit weights with an 8-bit head. `standard`: 8-bit weights. `precise`: bfloat16 weights, or those of
a quantized checkpoint as they are, with activations and sums in float32."""
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, kw_only=True)
class HeldModes:
    """The modes that an engine holds a model in."""

    default: Mode
    precisions: Mapping[Mode, str]
    """What each computes with; KV of one precision is of no use to another."""

    def ordered(self) -> list[Mode]:
        """The default first."""
        return sorted(self.precisions, key=lambda mode: mode != self.default)

    def asked(self, policy: common_pb2.Policy, model: str) -> Mode:
        """The mode of a request with this policy. Raises InvalidRequest or Precondition, which list what there is."""
        name = mode_name(policy.precision_mode)
        if not name:
            return self.default
        for mode in self.precisions:
            if mode == name:
                return mode
        raise mode_unavailable(name, model, self.precisions)
