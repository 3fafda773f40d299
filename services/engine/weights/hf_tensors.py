"""Tensors of a folder in Hugging Face layout for the native kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from services.engine.kernels.native.convert import READABLE
from services.engine.weights.hf_names import stored_name
from services.engine.weights.safetensors_file import StoredTensor, open_safetensors
from services.engine.weights.tensors import Floats, Rows
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel


class HfTensors:
    """The tensors of one or more shards: F32, F16 and BF16."""

    def __init__(self, folder: Path, shards: Sequence[Path]) -> None:
        """Raises ModelCorrupt when a shard is malformed."""
        self.path = folder
        self._tensors = {name: tensor for shard in shards for name, tensor in open_safetensors(shard).tensors.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensor(name).shape

    def format(self, name: str) -> str:
        return self._tensor(name).dtype

    def rows(self, name: str) -> Rows:
        tensor = self._tensor(name)
        return Rows(tensor.dtype, tensor.rows())

    def vector(self, name: str) -> Floats:
        tensor = self._tensor(name)
        raw = np.ascontiguousarray(tensor.raw)
        if tensor.dtype == "BF16":
            return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
        return raw.view("<f4" if tensor.dtype == "F32" else "<f2").astype(np.float32)

    def _tensor(self, name: str) -> StoredTensor:
        tensor = self._tensors.get(stored_name(name))
        if tensor is None:
            raise ModelCorrupt(f"{self.path}: tensor {stored_name(name)} is missing")
        if tensor.dtype not in READABLE:
            raise UnsupportedModel(
                f"{self.path}: tensor {stored_name(name)} is stored as {tensor.dtype}, which is not supported"
            )
        return tensor
