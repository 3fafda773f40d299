"""What the native kernels compute, in plain PyTorch: activations rounded to 8 bits, keys and values to bfloat16."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from services.engine.kernels.batch import KvLayer
from services.engine.kernels.reference import ReferenceKernels

GROUP = 32
LARGEST = 127.0


class RoundedReference(ReferenceKernels):
    """Defines the native kernels. They differ by the order of float sums, and by a step where that moves a rounding."""

    name = "rounded-reference"

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return F.linear(in_eight_bits(x), weight, bias)

    def gated_mlp(self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        gate, up = self.linear(x, gate_up, None).chunk(2, dim=-1)
        return self.linear(F.silu(gate) * up, down, None)

    def write_kv(self, kv: KvLayer, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().write_kv(kv, slots, keys.bfloat16().to(keys.dtype), values.bfloat16().to(values.dtype))


def in_eight_bits(x: torch.Tensor) -> torch.Tensor:
    """[..., C] → the same rounded to 127 steps of the largest absolute value in each group of 32."""
    groups = x.reshape(*x.shape[:-1], -1, GROUP)
    largest = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 0, LARGEST / largest, torch.zeros_like(largest))
    rounded = torch.round(groups * inverse) * (largest / LARGEST)
    return rounded.view(x.shape)
