"""How long a stage's answer may take before anybody worries: a multiple of what the slowest of the last ones took."""

from __future__ import annotations

import math
from collections import deque

NUM_ANSWERS = 128
LOOK_EVERY = 16
"""Answers between two looks at the percentile; at the beginning each one counts."""
FACTOR = 4.0


class Patience:
    def __init__(self, floor_s: float) -> None:
        """`floor_s`: never less than this, whatever the last answers took."""
        self._floor_s = floor_s
        self._taken_s: deque[float] = deque(maxlen=NUM_ANSWERS)
        self._since_look = 0
        self.seconds = floor_s

    def took(self, seconds: float) -> None:
        """An answer came after `seconds`."""
        self._taken_s.append(seconds)
        self._since_look += 1
        if self._since_look >= min(LOOK_EVERY, len(self._taken_s)):
            self._since_look = 0
            ordered = sorted(self._taken_s)
            p99_s = ordered[math.ceil(0.99 * len(ordered)) - 1]
            self.seconds = max(self._floor_s, FACTOR * p99_s)
