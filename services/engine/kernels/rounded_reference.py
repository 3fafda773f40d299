"""What the native kernels compute, in plain PyTorch: activations in 8 bits, keys and values as pages hold them."""

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

    def __init__(self, kv_dtype: str = "bfloat16") -> None:
        self._rounded_kv = in_bfloat16 if kv_dtype == "bfloat16" else in_scaled_rows

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return F.linear(in_eight_bits(x), weight, bias)

    def gated_mlp(self, x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        gate, up = self.linear(x, gate_up, None).chunk(2, dim=-1)
        return self.linear(F.silu(gate) * up, down, None)

    def write_kv(self, kv: KvLayer, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().write_kv(kv, slots, self._rounded_kv(keys), self._rounded_kv(values))


def in_eight_bits(x: torch.Tensor) -> torch.Tensor:
    """[..., C] → the same rounded to 127 steps of the largest absolute value in each group of 32."""
    groups = x.reshape(*x.shape[:-1], -1, GROUP)
    largest = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 0, LARGEST / largest, torch.zeros_like(largest))
    rounded = torch.round(groups * inverse) * (largest / LARGEST)
    return rounded.view(x.shape)


def in_bfloat16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().to(x.dtype)


def in_scaled_rows(x: torch.Tensor) -> torch.Tensor:
    """[..., D] → the same in 8 bits with one bfloat16 scale for each row, as 8-bit pages hold keys and values."""
    scale = in_bfloat16(x.abs().amax(-1, keepdim=True) / LARGEST)
    inverse = torch.where(scale > 0, 1 / scale, torch.zeros_like(scale))
    return torch.round(x * inverse) * scale
