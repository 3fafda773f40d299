"""A model file's tensors as rows of weights that the native kernels can read, whatever the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """Rows of a weight matrix."""

    format: str
    """One of READABLE."""
    raw: npt.NDArray[np.uint8]
    """[rows, bytes per row]"""


class Tensors(Protocol):
    """Tensors by the engine's names, rows in the engine's order. All raise ModelCorrupt when a tensor lacks."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    def shape(self, name: str) -> tuple[int, ...]: ...

    def format(self, name: str) -> str:
        """What `rows` will be in. Raises UnsupportedModel for a type that nothing here reads."""

    def rows(self, name: str) -> Rows:
        """A matrix. Formats without a form of their own come as F32."""

    def vector(self, name: str) -> Floats: ...
