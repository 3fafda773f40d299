"""What was learned about who comes back, as it outlives a process: a Gaussian over the weights."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from stagemesh.runtime.kv_value.returns import Floats
from stagemesh.runtime.kv_value.visit import PRIOR

KEPT_EVIDENCE = 0.5
"""What was seen before a stop counts half afterwards: those who come may have changed meanwhile."""
MAX_WEIGHT = 30.0
"""Chances are the same beyond it."""


@dataclass(frozen=True)
class Belief:
    weights: Floats  # [F]
    precision: Floats  # [F, F], symmetric and positive definite

    @classmethod
    def at_first(cls, spread: float) -> Belief:
        """Before anything was seen: the priors of `visit.py`."""
        return cls(np.array(list(PRIOR.values())), np.eye(len(PRIOR)) / spread**2)

    def carried_on(self, at_first: Belief) -> Belief:
        """What a new process begins with, which would have begun with `at_first`."""
        evidence = KEPT_EVIDENCE * (self.precision - at_first.precision)
        return Belief(self.weights, at_first.precision + evidence)

    def encode(self) -> bytes:
        written = {"names": list(PRIOR), "weights": self.weights.tolist(), "precision": self.precision.tolist()}
        return json.dumps(written).encode()

    @classmethod
    def decode(cls, data: bytes) -> Belief:
        """Raises ValueError for anything else than `encode` writes, and for weights of other features."""
        try:
            written = json.loads(data)
            belief = cls(np.array(written["weights"], np.float64), np.array(written["precision"], np.float64))
            names = written["names"]
        except (KeyError, TypeError, RecursionError, UnicodeDecodeError) as error:
            raise ValueError("no weights") from error
        if names != list(PRIOR):
            raise ValueError("weights of other features")
        belief.check()
        return belief

    def check(self) -> None:
        """Raises ValueError for numbers of another form."""
        size = len(PRIOR)
        if self.weights.shape != (size,) or self.precision.shape != (size, size):
            raise ValueError("weights of another form")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.precision).all()):
            raise ValueError("weights that are not finite")
        if np.abs(self.weights).max() > MAX_WEIGHT or not np.allclose(self.precision, self.precision.T):
            raise ValueError("weights beyond all bounds")
        if np.linalg.eigvalsh(self.precision).min() <= 0.0:
            raise ValueError("weights without a spread")
