"""Feedback of one length bucket: while first tokens come late, steps and batches become smaller."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30.0
MAX_SAMPLES = 256
LOOK_EVERY_S = 1.0
SHRINK, GROW = 0.7, 1.15
MIN_FACTOR = 0.25
CALM = 0.7
"""Of the target: below it there is room to grow again."""
QUANTILE = 0.95


class LatencyFeedback:
    """`factor` is 1 while first tokens come in time, and sinks to MIN_FACTOR while they do not."""

    def __init__(self) -> None:
        self.factor = 1.0
        self._samples: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)
        """When a first token came, and its time by its target."""
        self._looked_s = 0.0

    def took(self, now_s: float, seconds: float, target_s: float) -> None:
        """A first token came after so long."""
        self._samples.append((now_s, seconds / target_s))

    def look(self, now_s: float) -> None:
        """Adjust the factor, once in LOOK_EVERY_S."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        while self._samples and self._samples[0][0] < now_s - WINDOW_S:
            self._samples.popleft()
        late = self.lateness()
        if late > 1:
            self.factor = max(MIN_FACTOR, self.factor * SHRINK)
        elif late < CALM:
            self.factor = min(1.0, self.factor * GROW)

    def lateness(self) -> float:
        """The 95th percentile of time by target over the window; 0 without samples."""
        ratios = sorted(ratio for _, ratio in self._samples)
        return ratios[min(len(ratios) - 1, int(QUANTILE * len(ratios)))] if ratios else 0.0
