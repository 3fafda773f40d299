"""The limit of a rate that follows the load: the mean of the last minute × 1.3, set anew every ten seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from services.gateway.rates.config import RateConfig


@dataclass(frozen=True, kw_only=True)
class RateState:
    """What a caller is told of a limit."""

    limit: int
    """Requests within one refresh interval."""
    remaining: int
    """How many of them may come at once now."""
    reset_s: float
    """Until all of them may come at once again, if none comes."""


class Rate:
    """Requests that were let in, by second, and a bucket that fills at the limit. One event loop."""

    def __init__(self, config: RateConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._admitted: deque[tuple[int, int]] = deque()  # (second, how many), at most window_s + 1 of them
        self.limit_per_s = config.floor_per_s
        self._refreshed_s = self._filled_s = clock()
        self._tokens = self._most

    def wait_s(self) -> float:
        """0 when a request may come now, else how long until one may."""
        self._advance()
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / self.limit_per_s

    def take(self) -> None:
        """A request is let in; ask `wait_s` before."""
        now_s = self._advance()
        self._tokens -= 1
        second = int(now_s)
        if self._admitted and self._admitted[-1][0] == second:
            self._admitted[-1] = (second, self._admitted[-1][1] + 1)
        else:
            self._admitted.append((second, 1))

    def state(self) -> RateState:
        self._advance()
        missing = self._most - self._tokens
        return RateState(limit=int(self._most), remaining=max(0, int(self._tokens)), reset_s=missing / self.limit_per_s)

    @property
    def _most(self) -> float:
        return max(1.0, self.limit_per_s * self._config.refresh_s)

    def _advance(self) -> float:
        now_s = self._clock()
        if now_s - self._refreshed_s >= self._config.refresh_s:
            self._fill(now_s)
            self.limit_per_s = self._new_limit(now_s)
            self._refreshed_s = now_s
        self._fill(now_s)
        return now_s

    def _fill(self, now_s: float) -> None:
        self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self.limit_per_s)
        self._filled_s = now_s

    def _new_limit(self, now_s: float) -> float:
        config = self._config
        while self._admitted and self._admitted[0][0] <= now_s - config.window_s:
            self._admitted.popleft()
        mean_per_s = sum(count for _, count in self._admitted) / config.window_s
        return min(config.ceiling_per_s, max(config.floor_per_s, mean_per_s * config.factor))
