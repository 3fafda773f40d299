"""How the time of a step divides among embed, attend, mlp, norm and sample, measured on some steps.

Timing every part of every step would cost what it measures; so the parts of one step in N are timed, and each sequence
books the time of its steps in the proportions last measured on a step of the same kind.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence


class Part(enum.IntEnum):
    EMBED = 0
    ATTEND = 1
    MLP = 2
    NORM = 3
    SAMPLE = 4


class StageSeconds:
    """Time booked per part. Steps of the same shares are divided together: one addition for most steps."""

    def __init__(self) -> None:
        self._by_part = [0.0] * len(Part)
        self._shares: tuple[float, ...] = ()
        self._undivided_s = 0.0

    def add(self, seconds: float, shares: tuple[float, ...]) -> None:
        if shares is not self._shares:
            self._divide()
            self._shares = shares
        self._undivided_s += seconds

    @property
    def by_part(self) -> list[float]:
        self._divide()
        return self._by_part

    def _divide(self) -> None:
        for part, share in enumerate(self._shares):
            self._by_part[part] += self._undivided_s * share
        self._undivided_s = 0.0


class Probe:
    """Marks the ends of parts. This one measures nothing."""

    measures = False

    def mark(self, part: Part) -> None:
        """The time since the last mark belongs to `part`."""

    def book(self, seconds: Sequence[float]) -> None:
        """What kernels measured themselves since the last mark, for each part."""


class TimingProbe(Probe):
    measures = True

    def __init__(self) -> None:
        self.seconds = [0.0] * len(Part)
        self._last_s = time.perf_counter()

    def mark(self, part: Part) -> None:
        now = time.perf_counter()
        self.seconds[part] += now - self._last_s
        self._last_s = now

    def book(self, seconds: Sequence[float]) -> None:
        self.seconds = [before + more for before, more in zip(self.seconds, seconds, strict=True)]
        self._last_s = time.perf_counter()


class StageSampler:
    """Decides which steps are timed and keeps the shares last measured, apart for steps with and without prompts."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._num_steps = 0
        self._shares: dict[bool, tuple[float, ...]] = {}

    def begin(self, has_prompt: bool) -> Probe:
        self._num_steps += 1
        due = has_prompt or self._num_steps % self._interval == 0 or has_prompt not in self._shares
        return TimingProbe() if due else Probe()

    def end(self, probe: Probe, has_prompt: bool) -> tuple[float, ...]:
        """The shares for this step, which sum to 1."""
        if isinstance(probe, TimingProbe) and (total := sum(probe.seconds)) > 0:
            self._shares[has_prompt] = tuple(seconds / total for seconds in probe.seconds)
        return self._shares.get(has_prompt) or next(iter(self._shares.values()), (0.0,) * len(Part))
