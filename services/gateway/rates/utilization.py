"""How much work an engine has had over time: its sequences for each that it can run at once, as a mean by time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MAX_SAMPLES = 1_024


class Utilization:
    """Of one engine. A value holds from when it was seen until the next one."""

    def __init__(self, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s, self._clock = window_s, clock
        self._since_s = clock()
        self._samples: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)

    def observe(self, value: float) -> None:
        now_s = self._clock()
        if not self._samples or self._samples[-1][1] != value:
            self._samples.append((now_s, value))
        while len(self._samples) > 1 and self._samples[1][0] <= now_s - self._window_s:
            self._samples.popleft()

    def mean(self) -> float:
        """Over the window; what was before the first sample counts as idle."""
        now_s = self._clock()
        begin_s, total = now_s - self._window_s, 0.0
        ends = [at_s for at_s, _ in list(self._samples)[1:]] + [now_s]
        for (at_s, value), end_s in zip(self._samples, ends, strict=False):
            total += value * max(0.0, end_s - max(at_s, begin_s))
        return total / self._window_s

    def retry_after_s(self, most: float) -> float:
        """Until the mean is below `most`, if no more work comes."""
        mean = self.mean()
        return self._window_s * (1 - most / mean) if mean > most else 0.0
