"""How long to wait before a process is started again."""

from __future__ import annotations


class Backoff:
    """Doubles from `initial_s` to `max_s`; a process that was ready for `stable_after_s` begins anew."""

    def __init__(self, *, initial_s: float, max_s: float, stable_after_s: float) -> None:
        self._initial_s = initial_s
        self._max_s = max_s
        self._stable_after_s = stable_after_s
        self._num_failures = 0

    def next_delay_s(self, ready_for_s: float) -> float:
        """The wait after a run that ended and had been ready for `ready_for_s`."""
        if ready_for_s >= self._stable_after_s:
            self._num_failures = 0
        delay_s = min(self._max_s, self._initial_s * 2.0 ** min(self._num_failures, 64))
        self._num_failures += 1
        return delay_s
