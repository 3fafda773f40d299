"""How many tokens to guess: as many as make the step yield more tokens for its time, by what has been measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

FORGETTING = 0.93
"""Weight of what was seen, after each further observation."""
PRIOR_WEIGHT = 2.0
SPEED_RATE, SHAPE_RATE = 0.2, 0.04
EXACT_ROWS, ROW_STEP = 32, 8
MIN_MEASURED = 3
"""Steps of as many rows from which on their cost says something of more rows."""
MIN_GROWTH = 0.02
"""Of the cost, for each further row; what looks like less is noise."""
MIN_GAIN = 1.03
"""Guesses must promise so much more throughput; below that they are not worth their risk."""
MIN_SECONDS = 1e-9
PROBE_INTERVAL = 128
"""After so many steps in which guesses did not seem to pay, one is made to measure its cost anew."""


class Chance:
    """How often something turned out right lately."""

    def __init__(self, prior: float) -> None:
        self._right, self._seen = PRIOR_WEIGHT * prior, PRIOR_WEIGHT

    @property
    def value(self) -> float:
        return self._right / self._seen

    def saw(self, right: bool) -> None:
        self._right = FORGETTING * self._right + right
        self._seen = FORGETTING * self._seen + 1


class StepCost:
    """The cost of a step by its number of rows, relative to one row.

    A measured time is explained by the machine's present speed, which changes fast and concerns all steps, and by the
    shape of the curve, which is the kernels' and changes slowly. Only the shape is of interest.
    """

    def __init__(self) -> None:
        self._speed = 0.0
        self._shape: dict[int, float] = {}
        self._num_measured: dict[int, int] = {}

    def of(self, num_rows: int) -> float:
        """For a number of rows never measured, by the nearest one that was; beyond all of them also by how the cost
        grew so far, where that is less: kernels differ in how cheap further rows are, and what is tried is measured."""
        bucket = _bucket(num_rows)
        if (known := self._shape.get(bucket)) is not None:
            return known
        nearest = min(self._shape, key=lambda rows: (abs(rows - bucket), rows), default=1)
        cost = self._shape.get(nearest, 1.0) * _prior_cost(bucket) / _prior_cost(nearest)
        if nearest < bucket and self._num_measured.get(nearest, 0) >= MIN_MEASURED and 1 in self._shape:
            growth = (self._shape[nearest] - self._shape[1]) / (nearest - 1) if nearest > 1 else cost
            cost = min(cost, self._shape[nearest] + max(growth, MIN_GROWTH) * (bucket - nearest))
        return cost

    def knows(self, num_rows: int) -> bool:
        """Whether steps of as many rows have been measured."""
        return _bucket(num_rows) in self._shape

    def seconds(self, num_rows: int) -> float:
        """At the machine's present speed; 0 while nothing has been measured."""
        return self._speed * self.of(num_rows)

    def measured(self, num_rows: int, seconds: float) -> None:
        if seconds <= 0:
            return
        bucket, cost = _bucket(num_rows), self.of(num_rows)
        if not self._speed:
            self._speed = seconds / cost
        surprise = min(2.0, max(0.5, seconds / (self._speed * cost)))
        count = self._num_measured[bucket] = self._num_measured.get(bucket, 0) + 1
        self._speed *= surprise**SPEED_RATE
        self._shape[bucket] = cost * surprise ** max(SHAPE_RATE, 0.5 / count)


def draft_lengths(chances: Sequence[Sequence[float]], num_rows: int, cost: Callable[[int], float]) -> list[int]:
    """How many of each sequence's guesses to compute in a step of `num_rows` rows without any.

    `chances` are those of each guess to be right if all before it are. The likeliest guesses of all sequences come
    first; as many are taken as give the most tokens for the step's cost.
    """
    ranked = sorted(
        ((gain, -position, index) for index, own in enumerate(chances) for position, gain in _gains(own)), reverse=True
    )
    best, best_rate = 0, MIN_GAIN * num_rows / cost(num_rows)
    expected = float(num_rows)
    for number, (gain, _, _) in enumerate(ranked, start=1):
        expected += gain
        if (rate := expected / cost(num_rows + number)) > best_rate:
            best, best_rate = number, rate
        elif number - best > ROW_STEP:
            break
    lengths = [0] * len(chances)
    for _, _, index in ranked[:best]:
        lengths[index] += 1
    return lengths


def can_pay(num_rows: int, most: int, cost: Callable[[int], float]) -> bool:
    """Whether guesses that are all right would make a step of `num_rows` rows yield more for its cost."""
    least = MIN_GAIN * num_rows / cost(num_rows)
    return any((num_rows + number) / cost(num_rows + number) > least for number in range(1, most + 1))


def even_length(chances: Sequence[float], draft_s: float, check_s: Callable[[int], float], most: int) -> int:
    """How many tokens to draft for each sequence, where a draft of all costs `draft_s` and the check `check_s(rows)`.

    `chances` are those of each sequence's drafts to be right, one after the other.
    """
    best, best_rate = 0, MIN_GAIN * len(chances) / max(check_s(len(chances)), MIN_SECONDS)
    for length in range(1, most + 1):
        expected = sum(sum(chance**number for number in range(length + 1)) for chance in chances)
        rate = expected / max(length * draft_s + check_s(len(chances) * (length + 1)), MIN_SECONDS)
        if rate > best_rate:
            best, best_rate = length, rate
    return best


def _gains(chances: Sequence[float]) -> list[tuple[int, float]]:
    """The chance of each guess to become a token: that it and all before it are right."""
    return list(enumerate(accumulate(chances, mul)))


def _bucket(num_rows: int) -> int:
    return num_rows if num_rows <= EXACT_ROWS else num_rows // ROW_STEP * ROW_STEP


def _prior_cost(num_rows: int) -> float:
    """Weights are read once for a few rows; from then on rows cost their multiplications."""
    return max(1 + 0.09 * (num_rows - 1), 0.27 * num_rows)
