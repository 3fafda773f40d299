"""bfloat16 pages in 77 % of their bytes, without loss and at several GB/s: exponents of near numbers are near."""

from __future__ import annotations

import numpy as np

from services.engine.kernels.native.library import KernelLibrary
from services.engine.kv.page_codec import Value
from services.engine.kv.page_header import HEADER_BYTES, PageLayout


class ExponentPacking:
    """A `Packing` of encoded pages in one bfloat16 layout. What would not become smaller stays as it is."""

    def __init__(self, library: KernelLibrary, layout: PageLayout) -> None:
        assert layout.dtype == "bfloat16", layout.dtype
        self._c = library.c
        self._payload_bytes = layout.payload_bytes

    def pack(self, value: Value) -> Value:
        assert len(value) == HEADER_BYTES + self._payload_bytes, len(value)
        room = self._payload_bytes - 1  # so that packed ones are known by their length
        out = np.empty(HEADER_BYTES + room, np.uint8)
        payload = np.frombuffer(value, np.uint8, offset=HEADER_BYTES)
        arguments = (payload.ctypes.data, self._payload_bytes // 2, out.ctypes.data + HEADER_BYTES, room)
        num_bytes = self._c.sm_pack_bf16(*arguments)
        if not num_bytes:
            return value
        out[:HEADER_BYTES] = np.frombuffer(value, np.uint8, HEADER_BYTES)
        return out[: HEADER_BYTES + num_bytes].tobytes()

    def unpack(self, packed: Value) -> Value:
        """Raises ValueError for what `pack` did not give."""
        if len(packed) == HEADER_BYTES + self._payload_bytes:
            return packed
        if len(packed) < HEADER_BYTES:
            raise ValueError("not a packed page")
        out, payload = np.empty(HEADER_BYTES + self._payload_bytes, np.uint8), np.frombuffer(packed, np.uint8)
        out[:HEADER_BYTES] = payload[:HEADER_BYTES]
        arguments = (len(packed) - HEADER_BYTES, self._payload_bytes // 2, out.ctypes.data + HEADER_BYTES)
        if self._c.sm_unpack_bf16(payload.ctypes.data + HEADER_BYTES, *arguments):
            raise ValueError("not a packed page")
        return out.data
