"""Every stage in plain numpy, on weights as they are and activations as they are. Slow: for the rows of a failed step.

N rows of one sequence, H hidden size. An adapter's part is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.engine.healing.kv_rows import KvRows
from services.engine.kernels.native.library import Decoder, Layer, Matrix

Floats = npt.NDArray[np.float32]


class ReferenceForms:
    def __init__(self, decoder: Decoder, weights: str, kv: KvRows) -> None:
        self._decoder, self._weights, self._kv = decoder, weights, kv
        self._shape = decoder.shape

    def embed(self, token_ids: Sequence[int]) -> Floats:
        """[N, H]"""
        embedding, _, _ = self._decoder.ends(self._weights)
        return np.stack([embedding.row(token) for token in token_ids])

    def norm(self, weight: Floats, x: Floats) -> Floats:
        """[N, H]"""
        mean = np.square(x, dtype=np.float32).mean(-1, keepdims=True)
        normed: Floats = x / np.sqrt(mean + np.float32(self._shape.rms_norm_eps)) * weight
        return normed

    def attend(
        self, layer: int, pages: Sequence[int], positions: Sequence[int], normed: Floats, x: Floats
    ) -> Floats | None:
        """`x` plus what attention adds to it, [N, H]; writes the rows' keys and values. None where the sequence's other
        keys and values are not finite."""
        weights, shape = self._decoder.layer(self._weights, layer), self._shape
        q, k, v = self._projected(weights, positions, normed)
        if not self._kv.write(pages, layer, positions, k, v):
            return None
        keys, values = self._kv.read(pages, layer, max(positions) + 1)
        group = shape.num_heads // shape.num_kv_heads
        attended = np.empty_like(q)
        for row, position in enumerate(positions):
            first = max(0, position + 1 - weights.window) if weights.window else 0
            seen = slice(first, position + 1)
            for head in range(shape.num_heads):
                scores = keys[seen, head // group] @ q[row, head] / np.float32(np.sqrt(shape.head_dim))
                weighted = np.exp(scores - scores.max())
                attended[row, head] = (weighted / weighted.sum()) @ values[seen, head // group]
        added = attended.reshape(len(x), -1) @ dense(weights.output).T
        if weights.output_bias is not None:
            added = added + weights.output_bias
        total: Floats = (x + added).astype(np.float32)
        return total

    def head(self, normed: Floats) -> Floats:
        """[N, H] → [N, head rows]"""
        _, head, _ = self._decoder.ends(self._weights)
        logits = np.empty((len(normed), head.rows), np.float32)
        for index in range(head.rows):
            logits[:, index] = normed @ head.row(index)
        return logits

    def _projected(self, layer: Layer, positions: Sequence[int], normed: Floats) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values with their positions in them: [N, heads, D] each."""
        shape = self._shape
        rows = normed @ dense(layer.qkv)[: self._qkv_rows].T
        if layer.qkv_bias is not None:
            rows = rows + layer.qkv_bias
        sizes = np.cumsum([shape.num_heads, shape.num_kv_heads]) * shape.head_dim
        q, k, v = (part.reshape(len(normed), -1, shape.head_dim) for part in np.split(rows, sizes, axis=1))
        cos, sin = (table[list(positions)][:, None] for table in self._decoder.rotary)
        q, k = (
            part if weight is None else self.norm(weight, part)
            for part, weight in ((q, layer.q_norm), (k, layer.k_norm))
        )
        return rotated(q, cos, sin), rotated(k, cos, sin), v

    @property
    def _qkv_rows(self) -> int:
        return (self._shape.num_heads + 2 * self._shape.num_kv_heads) * self._shape.head_dim


def rotated(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """The pairs (i, i + D/2): [N, heads, D], [N, 1, D/2] twice → [N, heads, D]"""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def dense(matrix: Matrix) -> Floats:
    """[rows, cols]"""
    return np.stack([matrix.row(index) for index in range(matrix.rows)])
