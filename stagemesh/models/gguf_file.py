"""Read a GGUF file: metadata, tensor table, tensor bytes. Every length is checked against the file's size."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stagemesh.models.errors import ModelCorrupt, ModelMissing, UnsupportedModel

STRING, ARRAY = 8, 9
SCALARS: Mapping[int, tuple[str, str]] = {
    0: ("<B", "u1"), 1: ("<b", "i1"), 2: ("<H", "<u2"), 3: ("<h", "<i2"), 4: ("<I", "<u4"), 5: ("<i", "<i4"),
    6: ("<f", "<f4"), 7: ("<?", "?"), 10: ("<Q", "<u8"), 11: ("<q", "<i8"), 12: ("<d", "<f8"),
}  # fmt: skip
"""GGUF value type → struct format, numpy dtype."""

MAX_ENTRIES = 65_536
"""Metadata keys, and tensors; the largest published models have a few thousand."""
MAX_DIMENSIONS = 4

Value = Any
"""A bool, int, float, str, list of str, or one-dimensional numpy array."""


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """One row of the tensor table."""

    name: str
    shape: tuple[int, ...]
    """Row-major, as numpy and torch say it: (out_features, in_features) for a matrix."""
    type: str
    """GGML type name, e.g. `F32`, `Q4_1`."""
    offset: int
    """From the start of the file."""
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """An open file. The mapping stays open as long as this object or an array from it lives."""

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    _bytes: npt.NDArray[np.uint8]

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """The stored bytes of a tensor: (rows, bytes per row) uint8, read-only, mapped from the file."""
        info = self.tensors[name]
        data = self._bytes[info.offset : info.offset + info.num_bytes]
        rows = int(np.prod(info.shape[:-1], dtype=np.int64))
        return data.reshape(rows, -1)

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """The tensor as float32 in its shape, dequantized, a copy."""
        import gguf  # a quarter of a second that readers of metadata alone need not pay

        info = self.tensors[name]
        kind = gguf.GGMLQuantizationType[info.type]
        data = self.raw(name)
        if info.type in {"F32", "F16"}:
            data = data.view(np.float32 if info.type == "F32" else np.float16)
        try:
            values = gguf.dequantize(data, kind)
        except NotImplementedError:
            raise UnsupportedModel(
                f"{self.path}: tensor {name} is stored as {info.type}, which is not supported"
            ) from None
        return np.array(values, dtype=np.float32).reshape(info.shape)


def open_gguf(path: Path) -> GgufFile:
    """Open and check `path`. Raises ModelMissing, ModelCorrupt or UnsupportedModel (foreign version, split file)."""
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelMissing(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise ModelCorrupt(f"{path} cannot be read: {error}") from None
    try:
        return _parse(path, mapped)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise ModelCorrupt(f"{path} is not a sound GGUF file: {error}") from None


class _Cursor:
    """Reads little-endian values in order; whatever reaches beyond the end raises struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, num_bytes: int) -> bytes:
        if num_bytes > len(self.data) - self.at:
            raise struct.error(f"{num_bytes} bytes announced at {self.at}, beyond the end")
        start, self.at = self.at, self.at + num_bytes
        return self.data[start : self.at]

    def scalar(self, format_: str) -> Any:
        return struct.unpack(format_, self.take(struct.calcsize(format_)))[0]

    def string(self) -> str:
        return self.take(self.scalar("<Q")).decode("utf-8")

    def strings(self, count: int) -> list[str]:
        # The vocabulary: 100,000 strings and more, so the loop avoids calls.
        data, at, end, unpack = self.data, self.at, len(self.data), struct.Struct("<Q").unpack_from
        if count > (end - at) // 8:
            raise struct.error(f"{count} strings announced at {at}, beyond the end")
        values = []
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0]
            if at > end:
                raise struct.error(f"a string at {start} ends beyond the end")
            values.append(data[start:at].decode("utf-8"))
        self.at = at
        return values

    def value(self, kind: int) -> Value:
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(_scalar(kind)[0])
        item, count = self.scalar("<I"), self.scalar("<Q")
        if item == STRING:
            return self.strings(count)
        dtype = np.dtype(_scalar(item)[1])
        return np.frombuffer(self.take(count * dtype.itemsize), dtype=dtype)


def _scalar(kind: int) -> tuple[str, str]:
    if kind not in SCALARS:
        raise struct.error(f"value type {kind} is not known here")
    return SCALARS[kind]


def _parse(path: Path, data: mmap.mmap) -> GgufFile:
    cursor = _Cursor(data)
    if cursor.take(4) != b"GGUF":
        raise ModelCorrupt(f"{path} is not a GGUF file: it does not begin with `GGUF`")
    version = cursor.scalar("<I")
    if version not in {2, 3}:
        raise UnsupportedModel(f"{path} is GGUF version {version} (or big-endian); versions 2 and 3 are supported")
    num_tensors, num_keys = cursor.scalar("<Q"), cursor.scalar("<Q")
    if max(num_tensors, num_keys) > MAX_ENTRIES:
        raise ModelCorrupt(
            f"{path} announces {num_keys} keys and {num_tensors} tensors; at most {MAX_ENTRIES} are read"
        )
    metadata: dict[str, Value] = {}
    for _ in range(num_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("<I"))
    if metadata.get("split.count", 0) not in {0, 1}:
        raise UnsupportedModel(f"{path} is one part of a split model; merge the parts into one file")
    tensors = _read_tensors(path, cursor, num_tensors, metadata.get("general.alignment", 32))
    return GgufFile(path=path, metadata=metadata, tensors=tensors, _bytes=np.frombuffer(data, dtype=np.uint8))


def _read_tensors(path: Path, cursor: _Cursor, count: int, alignment: Value) -> dict[str, TensorInfo]:
    if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
        raise ModelCorrupt(f"{path}: general.alignment is {alignment!r}")
    rows = [_read_tensor_row(path, cursor) for _ in range(count)]
    start = -(-cursor.at // alignment) * alignment
    tensors = {}
    for name, shape, kind, offset in rows:
        num_bytes = _num_bytes(path, name, shape, kind)
        if start + offset + num_bytes > len(cursor.data) or name in tensors:
            raise ModelCorrupt(f"{path}: tensor {name!r} lies beyond the end of the file or stands there twice")
        tensors[name] = TensorInfo(name=name, shape=shape, type=kind, offset=start + offset, num_bytes=num_bytes)
    return tensors


def _read_tensor_row(path: Path, cursor: _Cursor) -> tuple[str, tuple[int, ...], str, int]:
    import gguf

    name, num_dimensions = cursor.string(), cursor.scalar("<I")
    if not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise ModelCorrupt(f"{path}: tensor {name!r} has {num_dimensions} dimensions")
    shape = tuple(cursor.scalar("<Q") for _ in range(num_dimensions))[::-1]
    number, offset = cursor.scalar("<I"), cursor.scalar("<Q")
    try:
        kind = gguf.GGMLQuantizationType(number).name
    except ValueError:
        raise UnsupportedModel(f"{path}: tensor {name!r} has the unknown type {number}") from None
    return name, shape, kind, offset


def _num_bytes(path: Path, name: str, shape: tuple[int, ...], kind: str) -> int:
    import gguf

    block_size, block_bytes = map(int, gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]])
    if 0 in shape or shape[-1] % block_size:
        raise ModelCorrupt(f"{path}: tensor {name!r} of type {kind} cannot have the shape {shape}")
    num_values = 1
    for size in shape:
        num_values *= size
    return num_values // block_size * block_bytes
