"""A circuit breaker: after repeated failures a dependency is left alone for a while, then probed.

closed ──(failures ≥ threshold)──▶ open ──(after open_s)──▶ half-open ──success──▶ closed
                                     ▲──────────failure─────────┘
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, kw_only=True)
class BreakerConfig:
    failure_threshold: int = 3
    """Consecutive failures that open the breaker."""
    open_s: float = 1.0
    """How long an open breaker refuses before it lets one probe through."""


class Breaker:
    """One dependency's breaker. Not thread-safe: used from one event loop."""

    def __init__(self, config: BreakerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._num_failures = 0
        self._opened_at_s = 0.0
        self._probe_since_s: float | None = None

    def configure(self, config: BreakerConfig) -> None:
        """Take other thresholds; what has been counted stays."""
        self._config = config

    @property
    def state(self) -> State:
        if self._num_failures < self._config.failure_threshold:
            return State.CLOSED
        if self._clock() - self._opened_at_s >= self._config.open_s:
            return State.HALF_OPEN
        return State.OPEN

    def can_call(self) -> bool:
        """Whether a call may be made now without taking the probe's place."""
        return self.state is State.CLOSED or (self.state is State.HALF_OPEN and not self._probing())

    def call(self) -> bool:
        """Take permission for one call; in half-open only one probe at a time gets it."""
        if not self.can_call():
            return False
        if self.state is State.HALF_OPEN:
            self._probe_since_s = self._clock()
        return True

    def succeeded(self) -> None:
        self._num_failures = 0
        self._probe_since_s = None

    def failed(self) -> None:
        self._num_failures += 1
        self._probe_since_s = None
        if self._num_failures >= self._config.failure_threshold:
            self._opened_at_s = self._clock()

    def trip(self) -> None:
        """Open at once: what failed is beyond doubt."""
        self._num_failures = max(self._num_failures, self._config.failure_threshold - 1)
        self.failed()

    def _probing(self) -> bool:
        # A probe whose caller vanished without a verdict must not block the breaker for ever.
        return self._probe_since_s is not None and self._clock() - self._probe_since_s < self._config.open_s
