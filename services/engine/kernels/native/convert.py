"""Rows of weights from one storage format to another, by the native library."""

from __future__ import annotations

from collections.abc import Mapping

import gguf
import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.library import FORMATS, KernelLibrary

READABLE: Mapping[str, int] = {**FORMATS, "F16": 4, "F32": 5}
"""GGML type names of what can be converted from."""
WRITABLE = frozenset({"Q4_1", "Q8_0", "BF16"})
"""What can be converted to."""


def converted(library: KernelLibrary, raw: npt.NDArray[np.uint8], from_: str, to: str) -> npt.NDArray[np.uint8]:
    """Rows [n, bytes per row] in `from_`, one of READABLE, quantized or rounded anew to `to`, one of WRITABLE."""
    assert to in WRITABLE, to
    raw = np.ascontiguousarray(raw)
    num_values = raw.size // type_bytes(from_) * type_values(from_)
    out = np.empty((len(raw), num_values // len(raw) // type_values(to) * type_bytes(to)), dtype=np.uint8)
    library.c.sm_convert(READABLE[from_], READABLE[to], raw.ctypes.data, num_values, out.ctypes.data)
    return out


def type_values(format_: str) -> int:
    """Weights in a block of the format."""
    return int(gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[format_]][0])


def type_bytes(format_: str) -> int:
    """Size of a block of the format."""
    return int(gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[format_]][1])
