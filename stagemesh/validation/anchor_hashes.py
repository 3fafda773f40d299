"""Hashes of texts and of their deletions, and signatures of characters and pairs, for many texts of one length at once.

The hash of characters c₀ … is Σ mix(cᵢ)·rⁱ modulo 2⁶⁴, mixed again; so that of every deletion follows from sums of a
prefix and a suffix. All arithmetic wraps around. Collisions cost a comparison, never a wrong answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
MAX_CHARS = 20_000
"""Of a form; a character may have up to 18 in compatibility form."""
_R = 0x9E3779B97F4A7C15 | 1
_R_INVERSE = pow(_R, -1, 1 << 64)
_LENGTH_FACTOR = 0xD6E8FEB86659FD93
_POWERS = np.cumprod(np.array([1] + [_R] * MAX_CHARS, np.uint64), dtype=np.uint64)


def codes_of(text: str) -> npt.NDArray[np.uint32]:
    """Its characters as numbers, [L]."""
    return np.frombuffer(text.encode("utf-32-le"), "<u4")


def deletion_hashes(codes: npt.NDArray[np.uint32], seed: int) -> U64:
    """[L] → [1 + D]: 32-bit hashes of the text, then of its different deletions of one character."""
    full, deleted, is_first = all_hashes(codes[None, :], seed)
    return np.concatenate([full, deleted[is_first]])


def all_hashes(codes: npt.NDArray[np.uint32], seed: int) -> tuple[U64, U64, npt.NDArray[np.bool_]]:
    """[N, L] → hashes of the texts [N], of each deletion [N, L], and which deletions differ from the one before.

    All hashes have 32 bits.
    """
    length = codes.shape[1]
    terms = _mixed(codes.astype(np.uint64) ^ np.uint64(seed)) * _POWERS[:length]  # [N, L]
    sums = np.cumsum(terms, axis=1, dtype=np.uint64)  # [N, L], of the characters up to and with this one
    total = sums[:, -1:] if length else np.zeros((codes.shape[0], 1), np.uint64)
    deleted = (sums - terms) + (total - sums) * np.uint64(_R_INVERSE)
    is_first = np.ones(codes.shape, np.bool_)
    is_first[:, 1:] = codes[:, 1:] != codes[:, :-1]
    return _short(total[:, 0], length), _short(deleted, length - 1), is_first


def signature(codes: npt.NDArray[np.uint32]) -> tuple[np.uint64, np.uint64]:
    chars, pairs = signatures(codes[None, :])
    return chars[0], pairs[0]


def signatures(codes: npt.NDArray[np.uint32]) -> tuple[U64, U64]:
    """[N, L] → parities of how often characters, and pairs of neighbours, occur, in 64 classes each. [N] both."""
    chars = _mixed(codes.astype(np.uint64))
    pairs = _mixed(chars[:, :-1] * np.uint64(_R) + chars[:, 1:])
    return _parity(chars), _parity(pairs)


def _parity(values: U64) -> U64:
    bits = np.uint64(1) << (values >> np.uint64(58))
    found: U64 = np.bitwise_xor.reduce(bits, axis=1)
    return found


def _mixed(values: Any) -> U64:
    """splitmix64"""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: U64 = values ^ (values >> np.uint64(31))
    return mixed


def _short(values: U64, length: int) -> U64:
    return _mixed(values + np.uint64((length + 1) * _LENGTH_FACTOR % (1 << 64))) >> np.uint64(32)
