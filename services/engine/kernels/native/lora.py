"""What an adapter adds to the linear operations of a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LORA_TARGETS: Mapping[str, int] = {"q": 0, "k": 1, "v": 2, "output": 3, "gate": 4, "up": 5, "down": 6}
"""Linear operations → their numbers in `kernels.h`."""
MAX_ADAPTERS = 64
MAX_RANK = 64


@dataclass(frozen=True, kw_only=True)
class LoraPart:
    """What is added to one linear operation of one layer: scale × B(A x)."""

    layer: int
    target: str
    """Of LORA_TARGETS."""
    a: Floats
    """[rank, columns], rank at most MAX_RANK"""
    b: Floats
    """[rows, rank]"""
    scale: float


class Widths(Protocol):
    @property
    def hidden_size(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def ffn_size(self) -> int: ...


def target_shape(target: str, model: Widths) -> tuple[int, int]:
    """Rows and columns of a linear operation."""
    hidden, ffn = model.hidden_size, model.ffn_size
    q, kv = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    return {
        "q": (q, hidden),
        "k": (kv, hidden),
        "v": (kv, hidden),
        "output": (hidden, q),
        "gate": (ffn, hidden),
        "up": (ffn, hidden),
        "down": (hidden, ffn),
    }[target]
