"""The policy as it runs: gives each visit its horizons, and learns from those that were followed by another."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from stagemesh.runtime.kv_value.belief import Belief
from stagemesh.runtime.kv_value.returns import Floats, Gaps, Observed, chances, fit
from stagemesh.runtime.kv_value.visit import PRIOR, Region, Visit, features
from stagemesh.runtime.kv_value.worth import horizon_s

REGIONS = (Region.KNOWN, Region.NEW)
MEDIAN_GAP_OVER_TAU = 0.4
"""Worth fades as slowly as people come back: within a few minutes in a chat of an hour, within hours over days."""


@dataclass(frozen=True, kw_only=True)
class LearnerLimits:
    tau_s: float = 300.0
    """Time constant with which a page's worth fades."""
    max_visits: int = 8_192
    """Visits that are remembered; the oldest go first."""
    prior_spread: float = 0.5
    """How far a weight strays from its prior before much has been seen."""


@dataclass(frozen=True)
class Horizons:
    """Seconds, for the two parts of a prompt."""

    known_s: float
    new_s: float


class ReturnLearner:
    """Not thread-safe. Memory is bounded by `max_visits`; `visited` takes microseconds, `refit` milliseconds."""

    def __init__(self, limits: LearnerLimits, gaps: Gaps | None = None) -> None:
        self._limits = limits
        self._gaps = gaps or Gaps(median_s=limits.tau_s * MEDIAN_GAP_OVER_TAU)
        self._at_first = Belief.at_first(limits.prior_spread)
        self._prior = self._belief = self._at_first
        size, width = limits.max_visits, len(PRIOR)
        self._rows = np.zeros((size, 2, width))  # [V, region, F]
        self._tokens = np.zeros((size, 2))  # [V, region]
        self._returned = np.zeros((size, 2))  # [V, region], share used again
        self._visited_s = np.zeros(size)  # [V]
        self._has_returned = np.zeros(size, dtype=np.bool_)  # [V]
        self._keys: list[Hashable] = [None] * size
        self._slots: dict[Hashable, int] = {}
        self._num_visits = 0

    @property
    def belief(self) -> Belief:
        """After the last fit."""
        return self._belief

    @property
    def num_visits(self) -> int:
        """Since this began."""
        return self._num_visits

    @property
    def num_pending(self) -> int:
        """Visits under whose key another may still follow."""
        return len(self._slots)

    def carry_on(self, belief: Belief) -> None:
        """Go on from what an earlier process had learned. Raises ValueError for numbers of another form."""
        belief.check()
        self._prior = self._belief = belief.carried_on(self._at_first)

    def adopt(self, belief: Belief) -> None:
        """Take on what `fitted` gave."""
        self._belief = belief

    def horizons(self, visit: Visit) -> Horizons:
        known, new = self._chances(self._visit_rows(visit))
        tau_s = self._limits.tau_s
        return Horizons(horizon_s(known, tau_s), horizon_s(new, tau_s))

    def visited(self, key: Hashable, visit: Visit, now_s: float, previous: Hashable | None = None) -> Horizons:
        """Remember a visit under `key`, as the one that followed that under `previous`; `key` may be used again."""
        self._close(previous, visit)
        slot = self._num_visits % self._limits.max_visits
        self._num_visits += 1
        if self._slots.get(self._keys[slot]) == slot:
            del self._slots[self._keys[slot]]
        rows = self._visit_rows(visit)
        self._rows[slot] = rows
        self._tokens[slot] = [visit.tokens(region) for region in REGIONS]
        self._visited_s[slot], self._has_returned[slot], self._returned[slot] = now_s, False, 0.0
        self._keys[slot] = key
        self._slots[key] = slot
        known, new = self._chances(rows)
        return Horizons(horizon_s(known, self._limits.tau_s), horizon_s(new, self._limits.tau_s))

    def refit(self, now_s: float) -> None:
        """Learn from all that is remembered; what has not returned by now counts as far as it would have."""
        self.adopt(self.fitted(self.observed(now_s)))

    def observed(self, now_s: float) -> Observed:
        """A copy of what is remembered, which `fitted` may look at in another thread."""
        count = min(self._num_visits, self._limits.max_visits)
        tokens = self._tokens[:count].reshape(-1)
        counts = tokens > 0
        sizes = np.sqrt(tokens[counts])
        return Observed(
            rows=self._rows[:count].reshape(2 * count, len(PRIOR))[counts],
            ages_s=np.repeat(np.maximum(now_s - self._visited_s[:count], 0.0), 2)[counts],
            returned=self._returned[:count].reshape(-1)[counts],
            has_returned=np.repeat(self._has_returned[:count], 2)[counts],
            sizes=sizes / max(float(sizes.mean()), 1e-9) if len(sizes) else sizes,
        )

    def fitted(self, observed: Observed) -> Belief:
        """What `observed` teaches beyond what was carried on; `adopt` takes it on."""
        if not len(observed.rows):
            return self._belief
        prior = self._prior
        return Belief(*fit(observed, self._belief.weights, prior.weights, prior.precision, self._gaps))

    def _close(self, previous: Hashable | None, visit: Visit) -> None:
        """The visit under `previous` was followed by this one: note what share of it was used again."""
        slot = self._slots.get(previous) if previous is not None else None
        if slot is None or self._has_returned[slot]:
            return
        known, new = self._tokens[slot]
        self._has_returned[slot] = True
        self._returned[slot] = (
            min(1.0, visit.known_tokens / known) if known else 0.0,
            min(1.0, max(0.0, visit.known_tokens - known) / new) if new else 0.0,
        )

    def _visit_rows(self, visit: Visit) -> Floats:
        """[region, F]"""
        return np.array([features(visit, region) for region in REGIONS])

    def _chances(self, rows: Floats) -> tuple[float, float]:
        known, new = chances(self._belief.weights, rows)
        return float(known), float(new)
