"""Learning who comes back, from visits of which many may still be followed by another.

A cure model: a region of a prompt is used again with chance p = logistic(weights · features), and if so after a gap
whose distribution G is known; one that has not been used again at age a may just be late: its chance is
p (1 - G(a)) / (1 - p G(a)). Fitted by expectation maximization with a Newton step inside, under a Gaussian prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NUM_ROUNDS = 20
MAX_STEP = 1.0
"""Of a weight in a round: where all chances are near 0 or 1 the curvature says little, and a full step goes too far."""
SETTLED = 1e-3


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """How long it takes until the next turn: a lognormal distribution."""

    median_s: float = 120.0
    """A person reads an answer and writes the next question."""
    spread: float = 0.9
    """Standard deviation of the logarithm."""

    def reached(self, ages_s: Floats) -> Floats:
        """Share of gaps that are no longer than each age. [N] float64."""
        z = (np.log(np.maximum(ages_s, 1e-3)) - math.log(self.median_s)) / (self.spread * math.sqrt(2))
        return 0.5 * (1.0 + _erf(z))


@dataclass(frozen=True)
class Observed:
    """Regions of past visits, one a row."""

    rows: Floats  # [N, F]
    ages_s: Floats  # [N], since the visit
    returned: Floats  # [N], share of the region that was used again, of those with has_returned
    has_returned: npt.NDArray[np.bool_]  # [N]
    sizes: Floats  # [N], relative importance


def chances(weights: Floats, rows: Floats) -> Floats:
    """[F], [N, F] → [N]."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(rows @ weights, -30.0, 30.0))))


def fit(observed: Observed, start: Floats, prior: Floats, precision: Floats, gaps: Gaps) -> tuple[Floats, Floats]:
    """The weights [F] after these observations and their precision [F, F], beginning from `start`; `prior` with
    `precision` where there are none."""
    reached = gaps.reached(observed.ages_s)
    weights, curvature = start, precision
    for _ in range(NUM_ROUNDS):
        p = chances(weights, observed.rows)
        late = p * (1.0 - reached) / np.maximum(1.0 - p * reached, 1e-9)
        expected = np.where(observed.has_returned, observed.returned, late)
        gradient = observed.rows.T @ (observed.sizes * (expected - p)) - precision @ (weights - prior)
        curvature = precision + (observed.rows * (observed.sizes * p * (1.0 - p))[:, None]).T @ observed.rows
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step * min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-9))
        if np.abs(step).max() < SETTLED:
            break
    return weights, curvature


def _erf(z: Floats) -> Floats:
    """Abramowitz and Stegun 7.1.26; exact to 1.5e-7, and numpy has none."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(z))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.asarray(np.sign(z) * (1.0 - series * np.exp(-z * z)))
