"""How much work a hot device still gets: 20 % less, then 40 % less, then none; and back, step by step, as it cools."""

from __future__ import annotations

import time
from collections.abc import Callable

from services.gateway.rates.config import HeatConfig

SHARES = (1.0, 0.8, 0.6, 0.0)
"""Of its usual work, by step."""


class Heat:
    """Of one engine's device."""

    def __init__(self, config: HeatConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._step = 0
        self._moved_s = float("-inf")

    @property
    def share(self) -> float:
        """1 is all of its work, 0 none."""
        return SHARES[self._step]

    def observe(self, celsius: float | None) -> None:
        """A reading, or None where there is no sensor (any more): then nothing is known against the device."""
        if celsius is None:
            self._step, self._moved_s = 0, float("-inf")
            return
        now_s = self._clock()
        if now_s - self._moved_s < self._config.step_s:
            return
        if celsius >= self._config.threshold_c and self._step < len(SHARES) - 1:
            self._step, self._moved_s = self._step + 1, now_s
        elif celsius < self._config.threshold_c - self._config.hysteresis_c and self._step:
            self._step, self._moved_s = self._step - 1, now_s
