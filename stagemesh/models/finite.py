"""Whether a model's files hold numbers that are not finite: kernels that compute in 8 bits may swallow them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.store import ModelFiles

BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24, "Q8_0": 34}
"""Bytes of a block of 32 weights."""
NUM_SCALES = {"Q4_0": 1, "Q4_1": 2, "Q5_0": 1, "Q5_1": 2, "Q8_0": 1}
"""Numbers in float16 that each block begins with."""
Bytes = npt.NDArray[np.uint8]


def not_finite(files: ModelFiles) -> Iterator[str]:
    """Names of tensors with a NaN or an infinite number. Formats that are not known here are passed over."""
    if files.path.is_file():
        yield from _in_gguf(files.path)
    else:
        for path in sorted(files.path.glob("*.safetensors")):
            yield from _in_safetensors(path)


def _in_gguf(path: Path) -> Iterator[str]:
    file = open_gguf(path)
    for name, info in file.tensors.items():
        if not is_finite(file.raw(name).reshape(-1), info.type):
            yield name


def _in_safetensors(path: Path) -> Iterator[str]:
    import json

    raw = np.memmap(path, dtype=np.uint8, mode="r")
    begin = 8 + int(raw[:8].view(np.uint64)[0])
    for name, entry in json.loads(raw[8:begin].tobytes()).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            if not is_finite(np.array(raw[begin + first : begin + end]), entry["dtype"]):
                yield name


def is_finite(data: Bytes, kind: str) -> bool:
    """Whether all numbers in `data`, the bytes of a tensor of format `kind`, are finite; True for unknown formats."""
    if kind in BLOCK_BYTES:
        scales = data.reshape(-1, BLOCK_BYTES[kind])[:, : 2 * NUM_SCALES[kind]]  # [blocks, 2 * scales]
        return bool(np.isfinite(np.ascontiguousarray(scales).view(np.float16)).all())
    if kind == "BF16":
        exponents = data.view(np.uint16) & 0x7F80
        return not bool((exponents == 0x7F80).any())
    floats = {"F32": np.float32, "F16": np.float16, "F64": np.float64}
    return kind not in floats or bool(np.isfinite(data.view(floats[kind])).all())
