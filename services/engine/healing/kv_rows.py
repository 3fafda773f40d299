"""Keys and values of one sequence as numbers, read from its pages and written to them: slow, for reference forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.engine.block_manager import PAGE_SIZE
from services.engine.kernels.native.page_io import PageIo

Floats = npt.NDArray[np.float32]
LARGEST = 127.0


class KvRows:
    """[tokens, KV heads, D] of one layer at a time. For the step loop's thread, between stages."""

    def __init__(self, page_io: PageIo) -> None:
        self._io = page_io
        self._format = page_io.formats[0]
        shape = page_io.shape
        self._num_layers, self._num_heads, self._head_dim = shape.num_layers, shape.num_kv_heads, shape.head_dim

    def read(self, pages: Sequence[int], layer: int, num_tokens: int) -> tuple[Floats, Floats]:
        """Keys and values of the first `num_tokens` tokens."""
        held = [self._decoded(self._export(page), layer) for page in pages[: -(-num_tokens // PAGE_SIZE)]]
        keys, values = (np.concatenate(part)[:num_tokens] for part in zip(*held, strict=True))
        return keys, values

    def write(self, pages: Sequence[int], layer: int, positions: Sequence[int], keys: Floats, values: Floats) -> bool:
        """Put keys and values of some tokens in place; whether their pages are finite then, or else were cleared.

        What the same tokens have in this and later layers is taken for nothing: it is computed after this.
        """
        are_finite = True
        for page in sorted({position // PAGE_SIZE for position in positions}):
            rows = [at for at, position in enumerate(positions) if position // PAGE_SIZE == page]
            payload = self._export(pages[page])
            for at in rows:
                self._clear(payload, layer, positions[at] % PAGE_SIZE)
                self._encode(payload, layer, positions[at] % PAGE_SIZE, keys[at], values[at])
            are_finite &= bool(self._io.import_pages([pages[page]], self._format, [payload])[0])
        return are_finite

    def _export(self, page: int) -> npt.NDArray[np.uint8]:
        out = np.empty((1, self._io.page_bytes(self._format)), np.uint8)
        self._io.export_pages([page], self._format, out)
        payload: npt.NDArray[np.uint8] = out[0]
        return payload

    def _heads(self, payload: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """[layers, KV heads, bytes]"""
        return payload.reshape(self._num_layers, self._num_heads, -1)

    def _numbers(self, heads: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.uint16]]:
        """Of 8-bit pages: [..., keys and values, tokens, D] and their scales [..., keys and values, tokens]."""
        size = 2 * PAGE_SIZE * self._head_dim
        numbers = heads[..., :size].view(np.int8).reshape(*heads.shape[:-1], 2, PAGE_SIZE, self._head_dim)
        scales = heads[..., size:].view(np.uint16).reshape(*heads.shape[:-1], 2, PAGE_SIZE)
        return numbers, scales

    def _wide(self, heads: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
        """Of bfloat16 pages: [..., keys and values, tokens, D]"""
        return heads.view(np.uint16).reshape(*heads.shape[:-1], 2, PAGE_SIZE, self._head_dim)

    def _decoded(self, payload: npt.NDArray[np.uint8], layer: int) -> tuple[Floats, Floats]:
        heads = self._heads(payload)[layer]
        if self._format == "bfloat16":
            both = _floats(self._wide(heads))
        else:
            numbers, scales = self._numbers(heads)
            both = numbers.astype(np.float32) * _floats(scales)[..., None]
        return both[:, 0].swapaxes(0, 1), both[:, 1].swapaxes(0, 1)  # [tokens, KV heads, D]

    def _clear(self, payload: npt.NDArray[np.uint8], layer: int, slot: int) -> None:
        heads = self._heads(payload)[layer:]
        if self._format == "bfloat16":
            self._wide(heads)[..., slot, :] = 0
        else:
            numbers, scales = self._numbers(heads)
            numbers[..., slot, :], scales[..., slot] = 0, 0

    def _encode(self, payload: npt.NDArray[np.uint8], layer: int, slot: int, key: Floats, value: Floats) -> None:
        heads, both = self._heads(payload)[layer], np.stack([key, value], axis=1)  # [KV heads, 2, D]
        if self._format == "bfloat16":
            self._wide(heads)[:, :, slot] = _bfloat16(both)
            return
        numbers, scales = self._numbers(heads)
        rounded = _bfloat16(np.abs(both).max(-1) / LARGEST)
        steps = _floats(rounded)[..., None]
        numbers[:, :, slot] = np.rint(np.divide(both, steps, out=np.zeros_like(both), where=steps > 0)).clip(-127, 127)
        scales[:, :, slot] = rounded


def _floats(bits: npt.NDArray[np.uint16]) -> Floats:
    """bfloat16 → float32"""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _bfloat16(values: Floats) -> npt.NDArray[np.uint16]:
    """float32 → bfloat16, to the nearest, ties to even"""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
