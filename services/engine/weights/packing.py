"""Packs a model's matrices for the native kernels, each in the format that its mode asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.engine.config import WeightFormats
from services.engine.kernels.native.convert import converted
from services.engine.kernels.native.library import BLOCK_ROWS, KernelLibrary, Matrix
from services.engine.modes import Mode
from services.engine.weights.formats import QUANTIZED, Kind, chosen_format
from services.engine.weights.quantized_cache import QuantizedCache
from services.engine.weights.tensors import Floats, Tensors
from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.finite import is_finite


class Packer:
    """Reads tensors by the engine's names. A matrix that several modes hold alike is packed once."""

    def __init__(self, library: KernelLibrary, tensors: Tensors, turbo: WeightFormats, cache: QuantizedCache) -> None:
        self._library, self._tensors, self._turbo, self._cache = library, tensors, turbo, cache
        self._packed: dict[tuple[str, ...], Matrix] = {}

    def vector(self, name: str, size: int) -> Floats:
        self._check(name, (size,))
        vector = self._tensors.vector(name)
        if not np.isfinite(vector).all():
            raise self._not_finite(name)
        return vector

    def stacked(self, mode: Mode, kind: Kind, names: Sequence[str], rows: Sequence[int], cols: int) -> Matrix:
        """One matrix of several tensors' rows after each other."""
        firsts = [sum(rows[:index]) // BLOCK_ROWS for index in range(len(rows))]
        return self._matrix(mode, kind, names, rows, cols, firsts, block_step=1)

    def alternating(self, mode: Mode, kind: Kind, names: tuple[str, str], rows: int, cols: int) -> Matrix:
        """One matrix of 16 rows of one tensor, 16 of the other, and so on."""
        return self._matrix(mode, kind, names, (rows, rows), cols, (0, 1), block_step=2)

    def _matrix(
        self,
        mode: Mode,
        kind: Kind,
        names: Sequence[str],
        rows: Sequence[int],
        cols: int,
        firsts: Sequence[int],
        block_step: int,
    ) -> Matrix:
        for name, count in zip(names, rows, strict=True):
            self._check(name, (count, cols))
        format_ = chosen_format(mode, kind, [self._tensors.format(name) for name in names], self._turbo)
        key = (format_, *names)
        if key not in self._packed:
            matrix = Matrix(self._library, format_, sum(rows), cols)
            for name, first in zip(names, firsts, strict=True):
                matrix.fill(self._raw(name, format_), first, block_step)
            self._packed[key] = matrix
        return self._exact(key) if mode == "precise" and format_ in QUANTIZED else self._packed[key]

    def _exact(self, key: tuple[str, ...]) -> Matrix:
        """Quantized weights of a checkpoint as they are, without the rounding of activations."""
        exact_key = ("exact", *key)
        if exact_key not in self._packed:
            self._packed[exact_key] = self._packed[key].exact()
        return self._packed[exact_key]

    def _raw(self, name: str, format_: str) -> npt.NDArray[np.uint8]:
        stored = self._tensors.format(name)
        if not is_finite(self._tensors.rows(name).raw.reshape(-1), stored):
            raise self._not_finite(name)
        if stored == format_:
            return self._tensors.rows(name).raw
        if format_ == "BF16":  # rounding is as fast as reading, so it is not kept on disk
            return converted(self._library, self._tensors.rows(name).raw, stored, format_)
        raw = self._cache.get(name, format_)
        if raw is None:
            raw = converted(self._library, self._tensors.rows(name).raw, stored, format_)
            self._cache.put(name, format_, raw)
        return raw

    def _not_finite(self, name: str) -> ModelCorrupt:
        return ModelCorrupt(
            f"{self._tensors.path}: tensor {name} holds a NaN or an infinite number; fetch the model again with "
            "`stagemesh model pull`"
        )

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        found = self._tensors.shape(name)
        if found != shape:
            raise ModelCorrupt(f"{self._tensors.path}: tensor {name} has the shape {found}, not {shape}")
