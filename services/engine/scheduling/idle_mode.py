"""Idle mode: after sustained low load, steps of a few tokens run on one thread, and the others stay parked.

Threads park by themselves 0.2 ms after a step, and the loop while there is nothing to do (`core_thread.py`); idle mode
keeps a trickle of small steps from waking all of them each time. Results do not depend on the number of threads. The
first step with more to do than a trickle runs on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

FEW_TOKENS = 16
"""A step of more is no trickle."""


@dataclass(frozen=True, kw_only=True)
class IdleLimits:
    after_s: float
    """For how long the load must have been low; also over how long it is averaged."""
    max_utilization: float
    """Part of the time that steps take, up to which the load is low."""


class IdleMode:
    """Not thread-safe: used by the step loop alone."""

    def __init__(self, limits: IdleLimits, num_threads: int, set_threads: Callable[[int], None], now_s: float) -> None:
        self._limits, self._num_threads, self._set_threads = limits, num_threads, set_threads
        self._utilization = 0.0
        self._ended_s = self._low_since_s = now_s
        self.threads = num_threads
        """Of the last step."""

    @property
    def is_idle(self) -> bool:
        return self.threads < self._num_threads

    def before_step(self, now_s: float, num_tokens: int) -> None:
        """A step of so many tokens begins."""
        self._decay(now_s - self._ended_s)
        if self._utilization > self._limits.max_utilization:
            self._low_since_s = now_s
        is_low = now_s - self._low_since_s >= self._limits.after_s
        wanted = 1 if is_low and num_tokens <= FEW_TOKENS else self._num_threads
        if wanted == self._num_threads and self.is_idle:
            self._low_since_s = now_s  # it takes a whole while again
        if wanted != self.threads:
            self.threads = wanted
            self._set_threads(wanted)

    def after_step(self, started_s: float, now_s: float) -> None:
        """The step that began then has ended."""
        seconds = now_s - started_s
        self._decay(seconds)
        self._utilization += 1 - math.exp(-seconds / self._limits.after_s)
        self._ended_s = now_s

    def _decay(self, seconds: float) -> None:
        self._utilization *= math.exp(-max(0.0, seconds) / self._limits.after_s)
