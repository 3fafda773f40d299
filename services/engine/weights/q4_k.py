"""Q4_K as Q4_1: both are a scale, a minimum and 4 bits for each group of 32; only how they are written differs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 144
GROUPS = 8
"""Of 32 weights, in a block."""

Bytes = npt.NDArray[np.uint8]


def as_q4_1(raw: Bytes) -> Bytes:
    """[rows, bytes per row] of Q4_K as Q4_1. Scales and minimums are rounded to half floats, quants are kept."""
    blocks = raw.reshape(-1, BLOCK_BYTES)
    d, dmin = blocks[:, :4].copy().view("<f2").astype(np.float32).T
    scales, minimums = _six_bit_pairs(blocks[:, 4:16])
    out = np.empty((len(blocks), GROUPS, 20), dtype=np.uint8)
    out[:, :, :2] = _halves(d[:, None] * scales)
    out[:, :, 2:4] = _halves(-dmin[:, None] * minimums)
    out[:, :, 4:] = _regrouped(blocks[:, 16:])
    return out.reshape(len(raw), -1)


def _six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """[n, 12] → scales and minimums, [n, 8] each: six bits, those of the last four groups in two places."""
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=1)
    minimums = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=1)
    return scales, minimums


def _halves(values: npt.NDArray[np.float32]) -> Bytes:
    return values.astype("<f2")[..., None].view(np.uint8)


def _regrouped(quants: Bytes) -> Bytes:
    """32 bytes hold one group in their low and the next in their high bits; Q4_1 has a group's halves there."""
    pairs = quants.reshape(-1, 4, 32)
    groups = np.stack([pairs & 15, pairs >> 4], axis=2).reshape(-1, GROUPS, 32)
    halved: Bytes = groups[:, :, :16] | groups[:, :, 16:] << 4
    return halved
