"""Stored KV pages as bytes: a header that says what the page is, a checksum over all of it, and the numbers.

Reading never raises, whatever the bytes: a page that is not exactly the one wanted is a miss with a cause.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.library import KernelLibrary, Shape
from services.engine.kernels.native.page_io import CHECKSUM_BYTES, Payload, checksum
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_header import (
    CHECKED_FROM,
    CHECKSUM_AT,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    PageLayout,
    PageName,
    PageOrigin,
    first_difference,
    header_name,
    header_origin,
    header_start,
)

Value: TypeAlias = bytes | memoryview
_LENGTHS = struct.Struct("<II")  # version, bytes of the payload


class PageCodec:
    """Encodes and decodes pages of one origin in one layout. Thread-safe: it changes nothing of its own."""

    def __init__(self, library: KernelLibrary, origin: PageOrigin, layout: PageLayout) -> None:
        self._library = library
        self._start = header_start(layout)
        self._origin = header_origin(origin, layout)
        self.value_bytes = HEADER_BYTES + layout.payload_bytes
        """Size of an encoded page."""

    def encode(self, name: PageName, payload: Payload) -> bytes:
        """A page with its header."""
        value = np.empty(self.value_bytes, np.uint8)
        value[HEADER_BYTES:] = np.frombuffer(payload, np.uint8)
        self.seal(name, value)
        return value.tobytes()

    def seal(self, name: PageName, value: npt.NDArray[np.uint8]) -> None:
        """Write the header in front of a payload that lies at value[HEADER_BYTES:] already.

        value: [value_bytes], contiguous
        """
        assert value.shape == (self.value_bytes,), value.shape
        rest = self._origin + header_name(name)
        value[CHECKED_FROM:HEADER_BYTES] = np.frombuffer(rest, np.uint8)
        start = self._start + checksum(self._library, value[CHECKED_FROM:])
        value[:CHECKED_FROM] = np.frombuffer(start, np.uint8)

    def decode(self, name: PageName, value: Value) -> memoryview | MissCause:
        """The payload, without copying, or why these bytes are not the page of that name."""
        if (damage := self._damage(value)) is not None:
            return damage
        header = bytes(value[:HEADER_BYTES])
        rest = self._origin + header_name(name)
        if header[:CHECKSUM_AT] != self._start or header[CHECKED_FROM:] != rest:
            return first_difference(header, self._start + bytes(CHECKSUM_BYTES) + rest)
        return memoryview(value)[HEADER_BYTES:]

    def _damage(self, value: Value) -> MissCause | None:
        """What is wrong with the bytes, whichever page they are."""
        if len(value) < HEADER_BYTES:
            return MissCause.TRUNCATED
        if value[: len(MAGIC)] != MAGIC:
            return MissCause.BAD_MAGIC
        version, payload_bytes = _LENGTHS.unpack_from(value, len(MAGIC))
        if version != VERSION:
            return MissCause.OTHER_VERSION
        if len(value) != HEADER_BYTES + payload_bytes:
            return MissCause.TRUNCATED if len(value) < HEADER_BYTES + payload_bytes else MissCause.TRAILING_BYTES
        stated, data = value[CHECKSUM_AT:CHECKED_FROM], np.frombuffer(value, np.uint8, offset=CHECKED_FROM)
        return None if checksum(self._library, data) == stated else MissCause.BAD_CHECKSUM


def layout_of(shape: Shape, dtype: str) -> PageLayout:
    """What a decoder of that shape stores."""
    return PageLayout(
        dtype=dtype, num_layers=shape.num_layers, num_kv_heads=shape.num_kv_heads, head_dim=shape.head_dim
    )
