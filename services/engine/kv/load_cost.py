"""What it takes to load pages, from what it took lately."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

SMOOTHING = 0.3
FORGET_S = 20.0
"""Time constant with which a bad experience fades: a store that was slow is tried again by and by."""
PRIOR_BYTES_PER_S = 300e6
PRIOR_CALL_S = 0.001


class PageCost:
    """Seconds a page takes from one tier. Measured by one thread, read by another."""

    def __init__(self, prior_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._prior_s = prior_s
        self._clock = clock
        self._latest: tuple[float, float] = (prior_s, -math.inf)
        """The mean and when it was measured, replaced together."""

    def seconds(self) -> float:
        page_s, measured_at_s = self._latest
        if page_s <= self._prior_s:
            return page_s
        return self._prior_s + (page_s - self._prior_s) * math.exp((measured_at_s - self._clock()) / FORGET_S)

    def measured(self, seconds: float, num_pages: int) -> None:
        """Learn from a call that asked for so many pages, whether they came or not."""
        page_s = self.seconds()
        self._latest = (page_s + SMOOTHING * (seconds / num_pages - page_s), self._clock())


class LoadCost:
    def __init__(self, page_bytes: int) -> None:
        self.host = PageCost(page_bytes / PRIOR_BYTES_PER_S / 4)
        self.store = PageCost(page_bytes / PRIOR_BYTES_PER_S)

    def seconds(self, num_host: int, num_store: int) -> float:
        """For so many pages from host memory and from the KV Redis."""
        calls_s = PRIOR_CALL_S if num_store else 0.0
        return num_host * self.host.seconds() + num_store * self.store.seconds() + calls_s
