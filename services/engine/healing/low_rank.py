"""A substitute for one layer's MLP in a tenth of its memory: each matrix by its largest singular directions.

It is made when it is needed first, in some tens of milliseconds a layer (docs/decisions/0260).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.engine.healing.reference_forms import dense
from services.engine.kernels.native.library import BLOCK_ROWS, Layer

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.float16]

SHARE = 0.1
"""Of the bytes of the MLP that it stands for."""
OVERSAMPLING = 8
NUM_PASSES = 2
SEED = 0


@dataclass(frozen=True)
class Factors:
    """left @ right: [rows, r], [r, cols]"""

    left: Halves
    right: Halves

    def multiply(self, x: Floats) -> Floats:
        """[N, cols] → [N, rows]"""
        between: Floats = x @ self.right.astype(np.float32).T
        product: Floats = between @ self.left.astype(np.float32).T
        return product

    @property
    def num_bytes(self) -> int:
        return self.left.nbytes + self.right.nbytes


@dataclass(frozen=True)
class LowRankMlp:
    gate: Factors
    up: Factors
    down: Factors

    def added(self, normed: Floats) -> Floats:
        """What the MLP adds to the residual stream, about: [N, H] → [N, H]"""
        gate = self.gate.multiply(normed)
        gated: Floats = (gate / (1 + np.exp(-np.clip(gate, -80, 80))) * self.up.multiply(normed)).astype(np.float32)
        return self.down.multiply(gated)

    @property
    def num_bytes(self) -> int:
        return self.gate.num_bytes + self.up.num_bytes + self.down.num_bytes


def low_rank_mlp(layer: Layer) -> LowRankMlp:
    """The substitute. Weights that are not finite count as 0."""
    gate_up = np.nan_to_num(dense(layer.gate_up), posinf=0, neginf=0)
    blocks = gate_up.reshape(-1, 2, BLOCK_ROWS, gate_up.shape[1])
    gate, up = (blocks[:, half].reshape(-1, gate_up.shape[1]) for half in (0, 1))
    down = np.nan_to_num(dense(layer.down), posinf=0, neginf=0)
    room = SHARE * (layer.gate_up.base.num_bytes() + layer.down.base.num_bytes())
    rank = max(1, int(room / (2 * 3 * (gate.shape[0] + gate.shape[1]))))
    return LowRankMlp(*(factored(matrix, rank) for matrix in (gate, up, down)))


def factored(matrix: Floats, rank: int) -> Factors:
    """The best product of that rank, nearly (Halko, Martinsson and Tropp, 2011, algorithm 4.4)."""
    rank = min(rank, *matrix.shape)
    drawn = np.random.default_rng(SEED).standard_normal((matrix.shape[1], min(rank + OVERSAMPLING, *matrix.shape)))
    basis, _ = np.linalg.qr(matrix @ drawn.astype(np.float32))
    for _ in range(NUM_PASSES):
        basis, _ = np.linalg.qr(matrix @ (matrix.T @ basis))
    left, values, right = np.linalg.svd(basis.T @ matrix, full_matrices=False)
    scale = np.sqrt(values[:rank])
    return Factors(
        (basis @ left[:, :rank] * scale).astype(np.float16), (scale[:, None] * right[:rank]).astype(np.float16)
    )
