"""A median and where it lies: between two of the sorted values, whatever their distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class MedianInterval:
    median: float
    low: float
    high: float
    """Without bound (infinite) where there are too few values to say."""

    def is_within(self, low: float, high: float) -> bool:
        """Shown to lie there; False may mean only that there are too few values."""
        return low <= self.low and self.high <= high

    def shifted(self, percent_of: float = 100.0) -> dict[str, float | None]:
        """Of ratios, as a change in percent; a bound that is not known is None."""
        named = {"median": self.median, "low": self.low, "high": self.high}
        return {
            name: round(percent_of * (ratio - 1.0), 2) if math.isfinite(ratio) else None
            for name, ratio in named.items()
        }


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> MedianInterval:
    """How many of the values lie below the true median is binomial with one half, so order statistics bound it."""
    ordered, number = sorted(values), len(values)
    outside, below = 0.0, -1  # chance that at most `below` values lie under the median
    while below + 1 < number // 2:
        outside += math.exp(_log_binomial(number, below + 1) - number * math.log(2))
        if 2 * outside > 1.0 - confidence:
            break
        below += 1
    if below < 0:
        return MedianInterval(statistics.median(ordered), -math.inf, math.inf)
    return MedianInterval(statistics.median(ordered), ordered[below], ordered[number - 1 - below])


def _log_binomial(number: int, chosen: int) -> float:
    return math.lgamma(number + 1) - math.lgamma(chosen + 1) - math.lgamma(number - chosen + 1)
