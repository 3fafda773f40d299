"""Noise that depends on (seed, output position) and nothing else.

The draw of a token is `argmax(logits / temperature + gumbel noise)`. Each token of the vocabulary has its own noise
value, computed from a counter, so the draw does not depend on the batch, on which tokens a filter left over, on the
engine or on a restart; and two nearly equal distributions draw the same token most of the time.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


def noise_key(seed: int, position: int) -> int:
    """A 64-bit key for output position `position`."""
    digest = hashlib.blake2b(position.to_bytes(8, "little"), key=seed.to_bytes(8, "little"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def uniforms(key: int, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """A number strictly between 0 and 1 for each token: output `token` of SplitMix64 seeded with `key`."""
    z = np.uint64(key) + (tokens.astype(np.uint64) + np.uint64(1)) * GOLDEN_GAMMA
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def gumbel(key: int, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Standard Gumbel noise for each token."""
    return -np.log(-np.log(uniforms(key, tokens)))
