"""How long a waiting sequence will wait, from how long others ran."""

from __future__ import annotations

SMOOTHING = 0.2


class WaitEstimate:
    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._run_s = 0.0

    def ran(self, seconds: float) -> None:
        """A sequence ended this long after it was admitted."""
        self._run_s = self._run_s + SMOOTHING * (seconds - self._run_s) if self._run_s else seconds

    def seconds(self, position: int) -> float:
        """For the sequence at `position` (1 is next); 0 while nothing has been measured."""
        return position * self._run_s / self._max_running
