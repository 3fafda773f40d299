"""A cost that grows with two quantities, fitted to what was measured lately."""

from __future__ import annotations

DECAY = 0.95
"""Weight of a measurement at the next one: about the last twenty count."""
MAX_SURPRISE = 4.0
"""A measurement counts for at most so many times what was expected: a pause of the whole machine is not a cost."""
PRIOR_WEIGHT = 0.02
"""Of what is measured: how much the expected relation of both parts counts. It decides where the second quantity was
never large against the first, so that noise in small ones is not taken for a cost that large ones would have."""


class DecayedFit:
    """Least squares of y ≈ p·a + q·b with p, q ≥ 0, where older measurements count less and less."""

    def __init__(self, prior_ratio: float) -> None:
        """`prior_ratio`: what q : p should be while measurements do not tell."""
        self.p = self.q = 0.0
        self._prior_ratio = prior_ratio
        self._aa = self._ab = self._bb = self._ay = self._by = 0.0

    def __call__(self, a: float, b: float) -> float:
        return self.p * a + self.q * b

    @property
    def is_known(self) -> bool:
        return self.p > 0 or self.q > 0

    def measured(self, y: float, a: float, b: float) -> None:
        """Learn that y was measured for a and b, all of them not negative."""
        if self.is_known and (expected := self(a, b)) > 0:
            y = min(y, MAX_SURPRISE * expected)
        self._aa = DECAY * self._aa + a * a
        self._ab = DECAY * self._ab + a * b
        self._bb = DECAY * self._bb + b * b
        self._ay = DECAY * self._ay + a * y
        self._by = DECAY * self._by + b * y
        self._solve()

    def _solve(self) -> None:
        """Minimize the squares, and PRIOR_WEIGHT·Σa²·(q − ratio·p)² beside them."""
        weight = PRIOR_WEIGHT * self._aa
        aa = self._aa + weight * self._prior_ratio * self._prior_ratio
        ab = self._ab - weight * self._prior_ratio
        bb = self._bb + weight
        determinant = aa * bb - ab * ab
        if determinant <= 0:  # nothing was measured
            return
        self.p = (self._ay * bb - self._by * ab) / determinant
        self.q = (self._by * aa - self._ay * ab) / determinant
        if self.q < 0:
            self.p, self.q = self._ay / self._aa, 0.0
        elif self.p < 0:
            self.p, self.q = 0.0, self._by / self._bb
