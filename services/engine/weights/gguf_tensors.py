"""Tensors of a GGUF file for the native kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from services.engine.kernels.native.convert import READABLE
from services.engine.weights.gguf_names import stored_name, unpermute
from services.engine.weights.q4_k import as_q4_1
from services.engine.weights.tensors import Floats, Rows
from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.gguf_file import GgufFile, TensorInfo
from stagemesh.models.model_config import TransformerConfig


class GgufTensors:
    """Readable types as they are, Q4_K as the Q4_1 that it is made of, other types dequantized to F32."""

    def __init__(self, file: GgufFile, config: TransformerConfig) -> None:
        self._file, self._config = file, config

    @property
    def path(self) -> Path:
        return self._file.path

    def shape(self, name: str) -> tuple[int, ...]:
        return self._info(name).shape

    def format(self, name: str) -> str:
        kind = self._info(name).type
        return "Q4_1" if kind == "Q4_K" else kind if kind in READABLE else "F32"

    def rows(self, name: str) -> Rows:
        info = self._info(name)
        if info.type in READABLE:
            raw = self._file.raw(info.name)
        elif info.type == "Q4_K":
            raw = as_q4_1(self._file.raw(info.name))
        else:
            raw = self._file.tensor(info.name).view(np.uint8)
        heads = self._permuted_heads(name)
        return Rows(self.format(name), unpermute(raw, heads) if heads else raw)

    def vector(self, name: str) -> Floats:
        values = self._file.tensor(self._info(name).name)
        heads = self._permuted_heads(name)
        return np.ascontiguousarray(unpermute(values, heads) if heads else values)

    def _permuted_heads(self, name: str) -> int:
        """Heads whose rows the file interleaves; 0 where it does not."""
        kind = name.rpartition(".")[2].removesuffix("_bias")
        heads = {"q": self._config.num_heads, "k": self._config.num_kv_heads}.get(kind, 0)
        return heads if self._config.permuted_qk else 0

    def _info(self, name: str) -> TensorInfo:
        info = self._file.tensors.get(stored_name(name))
        if info is None:
            raise ModelCorrupt(f"{self._file.path}: tensor {stored_name(name)} is missing")
        return info
