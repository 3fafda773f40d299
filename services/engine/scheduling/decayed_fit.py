"""A cost that grows with two quantities, fitted to what was measured lately."""

from __future__ import annotations

DECAY = 0.95
"""Weight of a measurement at the next one: about the last twenty count."""
MAX_SURPRISE = 4.0
"""A measurement counts for at most so many times what was expected: a pause of the whole machine is not a cost."""
MIN_INDEPENDENCE = 1e-4
"""Below it, both quantities grew together, and the second's part is left as it was."""


class DecayedFit:
    """Least squares of y ≈ p·a + q·b with p, q ≥ 0, where older measurements count less and less."""

    def __init__(self) -> None:
        self.p = self.q = 0.0
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
        determinant = self._aa * self._bb - self._ab * self._ab
        if determinant > MIN_INDEPENDENCE * self._aa * self._bb:
            self.p = (self._ay * self._bb - self._by * self._ab) / determinant
            self.q = (self._by * self._aa - self._ay * self._ab) / determinant
        elif self._aa > 0:
            self.p = (self._ay - self.q * self._ab) / self._aa
        if self.q < 0 or (self.p < 0 and not self._bb):
            self.q, self.p = 0.0, self._ay / self._aa if self._aa else 0.0
        elif self.p < 0:
            self.p, self.q = 0.0, self._by / self._bb
