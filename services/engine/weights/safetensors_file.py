"""Reads a safetensors file without PyTorch: a header that is checked, and tensors mapped from the file."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stagemesh.models.errors import ModelCorrupt

MAX_HEADER_BYTES = 100_000_000
"""As the reference implementation has it."""
VALUE_BYTES: Mapping[str, int] = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1}
"""Of the types that are read here; others are listed and refused by whoever wants them."""


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    dtype: str
    """As safetensors names it, e.g. `BF16`."""
    shape: tuple[int, ...]
    raw: npt.NDArray[np.uint8]
    """The tensor's bytes, read-only, mapped from the file."""

    def rows(self) -> npt.NDArray[np.uint8]:
        """[rows, bytes per row]; a vector is one row."""
        return self.raw.reshape(int(np.prod(self.shape[:-1], dtype=np.int64)), -1)


@dataclass(frozen=True, kw_only=True)
class SafetensorsFile:
    path: Path
    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]


def open_safetensors(path: Path) -> SafetensorsFile:
    """Raises ModelCorrupt when the file is malformed."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > min(MAX_HEADER_BYTES, len(data) - 8):
            raise ValueError(f"a header of {size} bytes in a file of {len(data)}")
        header = json.loads(data[8 : 8 + size])
        body = np.frombuffer(data, dtype=np.uint8)[8 + size :]
        metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
        tensors = {name: _tensor(entry, body) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelCorrupt(f"{path} cannot be read: {error}") from None
    return SafetensorsFile(path=path, tensors=tensors, metadata=metadata)


def _tensor(entry: Any, body: npt.NDArray[np.uint8]) -> StoredTensor:
    dtype, shape, (start, end) = str(entry["dtype"]), tuple(map(int, entry["shape"])), map(int, entry["data_offsets"])
    if not 0 <= start <= end <= len(body) or min(shape, default=1) < 1:
        raise ValueError(f"a tensor of shape {shape} at {start} to {end} of {len(body)} bytes")
    width = VALUE_BYTES.get(dtype)
    if width is not None and end - start != width * int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"a {dtype} tensor of shape {shape} in {end - start} bytes")
    return StoredTensor(dtype=dtype, shape=shape, raw=body[start:end])
