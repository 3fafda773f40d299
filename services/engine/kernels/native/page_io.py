"""KV pages between a decoder's pool and the form in which they are stored, by the native library.

A stored page does not depend on how the pool lies in memory: `[layer][KV head]{keys [16 tokens, D], values [16
tokens, D]}` in bfloat16, or the same in int8 followed in each head by 16 bfloat16 scales of the keys and 16 of the
values; little-endian. Between equal formats nothing is rounded. A bfloat16 pool can also give and take int8 pages; an
int8 pool knows int8 pages only.

One other thread may do this while the step loop's thread runs a step, as long as that step neither reads nor writes the
pages: an exported page must be held, full and computed; an imported one must belong to no sequence that runs. The calls
release the GIL.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.address import address_of
from services.engine.kernels.native.library import KV_FORMATS, Decoder, KernelLibrary

Bools = npt.NDArray[np.bool_]
Payload: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]

CHECKSUM_BYTES = 16


class PageIo:
    """Exports and imports pages of one decoder."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._c = decoder.library.c
        self.library = decoder.library
        self.shape = decoder.shape

    @property
    def formats(self) -> tuple[str, ...]:
        """What the pool's pages can be stored as; the first is exact."""
        return ("bfloat16", "int8") if self.shape.kv_format == "bfloat16" else ("int8",)

    def page_bytes(self, format_: str) -> int:
        """Size of a stored page."""
        return int(self._c.sm_page_bytes(self._decoder.handle, KV_FORMATS[format_]))

    def export_pages(self, pages: Sequence[int], format_: str, out: npt.NDArray[np.uint8]) -> Bools:
        """Write page i to `out[i]`; [pages] whether all its numbers are finite: one that is not must not be stored.

        out: [pages, page_bytes]; its rows may lie apart, e.g. behind room for headers.
        """
        assert out.shape == (len(pages), self.page_bytes(format_)), out.shape
        assert out.dtype == np.uint8, out.dtype
        assert out.strides[1] == 1, out.strides
        assert out.flags.writeable, "memory that is read-only"
        start, stride = out.ctypes.data, out.strides[0]
        to = np.arange(len(pages), dtype=np.uint64) * np.uint64(stride) + np.uint64(start)
        return self._move(self._c.sm_export_pages, pages, format_, to)

    def import_pages(self, pages: Sequence[int], format_: str, payloads: Sequence[Payload]) -> Bools:
        """Write `payloads` into the pool; [pages] whether all numbers of each are finite, else the page is cleared."""
        assert len(payloads) == len(pages), len(payloads)
        held = [np.frombuffer(payload, dtype=np.uint8) for payload in payloads]
        assert all(len(payload) == self.page_bytes(format_) for payload in held), "a payload of another size"
        return self._move(
            self._c.sm_import_pages, pages, format_, np.array([payload.ctypes.data for payload in held], np.uint64)
        )

    def _move(
        self, function: Callable[..., None], pages: Sequence[int], format_: str, addresses: npt.NDArray[np.uint64]
    ) -> Bools:
        assert format_ in self.formats, f"pages of {self.shape.kv_format} stored as {format_}"
        assert all(0 < page < self.shape.num_pages for page in pages), "a page beyond the pool, or the padding page"
        numbers, are_finite = array("i", pages), np.zeros(len(pages), dtype=np.bool_)
        if pages:
            arguments = (len(pages), KV_FORMATS[format_], address_of(addresses), address_of(are_finite))
            function(self._decoder.handle, address_of(numbers), *arguments)
        return are_finite


def checksum(library: KernelLibrary, data: npt.NDArray[np.uint8]) -> bytes:
    """Of contiguous bytes, against damage: CHECKSUM_BYTES bytes, four CRC-32C over every fourth word of 8 bytes."""
    sums = np.empty(4, dtype="<u4")
    library.c.sm_checksum(data.ctypes.data, len(data), sums.ctypes.data)
    return sums.tobytes()
