"""The memory of all KV pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from services.engine.block_manager import PAGE_SIZE
from services.engine.kernels.batch import KvLayer
from stagemesh.models.model_config import TransformerConfig


class KvPool:
    """Keys and values of all layers. The system gives memory when a page is first written."""

    def __init__(self, config: TransformerConfig, num_pages: int, dtype: torch.dtype) -> None:
        """`num_pages` without the padding page, which is number 0."""
        shape = (num_pages + 1, PAGE_SIZE, config.num_kv_heads, config.head_dim)
        self.layers = tuple(KvLayer(_zeros(shape, dtype), _zeros(shape, dtype)) for _ in range(config.num_layers))

    def zero(self, pages: Sequence[int]) -> None:
        """Clear pages that change hands."""
        if pages:
            index = torch.tensor(pages)
            for layer in self.layers:
                layer.keys.index_fill_(0, index, 0)
                layer.values.index_fill_(0, index, 0)

    def copy(self, page: int, to: int) -> None:
        for layer in self.layers:
            layer.keys[to] = layer.keys[page]
            layer.values[to] = layer.values[page]

    def num_bytes(self) -> int:
        """Size when every page has been written."""
        return sum(tensor.nbytes for layer in self.layers for tensor in (layer.keys, layer.values))


def _zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    # numpy's zeros come from calloc, so untouched pages cost nothing; torch.zeros writes them all.
    if dtype is torch.bfloat16:
        return torch.from_numpy(np.zeros(shape, dtype=np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.zeros(shape, dtype=np.float32))
