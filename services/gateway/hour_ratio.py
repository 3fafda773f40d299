"""The share of something over the last hour, in buckets of a minute: bounded, and forgetting by itself."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

BUCKET_S = 60.0
NUM_BUCKETS = 60


class HourRatio:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: deque[tuple[int, list[int]]] = deque()

    def add(self, is_counted: bool) -> None:
        """One more event; `is_counted` if it is of those whose share is wanted."""
        minute = self._forget()
        if not self._buckets or self._buckets[-1][0] != minute:
            self._buckets.append((minute, [0, 0]))
        counts = self._buckets[-1][1]
        counts[0] += is_counted
        counts[1] += 1

    def value(self) -> float:
        """From 0 to 1; 0 when nothing happened."""
        self._forget()
        counted = sum(counts[0] for _, counts in self._buckets)
        total = sum(counts[1] for _, counts in self._buckets)
        return counted / total if total else 0.0

    def _forget(self) -> int:
        minute = int(self._clock() // BUCKET_S)
        while self._buckets and self._buckets[0][0] <= minute - NUM_BUCKETS:
            self._buckets.popleft()
        return minute
