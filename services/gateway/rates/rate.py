"""The limit of a rate that follows the load: the mean of the last minute × 1.3, set anew every ten seconds.

With several gateways it is the mean of all of them, as of the last exchange; each lets in its part of it.
"""

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


@dataclass(frozen=True, kw_only=True)
class Window:
    """How much has come to one gateway, or to several together."""

    admitted_per_s: float = 0.0
    """Mean of what was let in over the window."""
    asked_per_s: float = 0.0
    """What wanted to come in since the limit was last set."""

    def __add__(self, other: Window) -> Window:
        return Window(
            admitted_per_s=self.admitted_per_s + other.admitted_per_s, asked_per_s=self.asked_per_s + other.asked_per_s
        )


NOTHING = Window()
LEAST_SHARE = 0.25
"""Of an equal share, what a gateway gets at least to which nothing came lately."""


def own_share(limit_per_s: float, own: Window, others: Window, num_gateways: int) -> float:
    """What one gateway may let in of a limit for all: what the others leave; where more is asked for than there is, by
    how much is asked of each."""
    asked_per_s = own.asked_per_s + others.asked_per_s
    least_per_s = limit_per_s * LEAST_SHARE / num_gateways
    if asked_per_s <= limit_per_s:
        return max(limit_per_s - others.asked_per_s, least_per_s)
    return max(limit_per_s * own.asked_per_s / asked_per_s, least_per_s)


class Rate:
    """Requests that were let in, by second, and a bucket that fills at the limit. One event loop."""

    def __init__(self, config: RateConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._admitted: deque[tuple[int, int]] = deque()  # (second, how many), at most window_s + 1 of them
        self.limit_per_s = config.floor_per_s
        self._refreshed_s = self._filled_s = clock()
        self._tokens = self._most
        self._num_asked, self._asked_before_per_s = 0, 0.0
        self._others, self._num_gateways = NOTHING, 1

    @property
    def is_idle(self) -> bool:
        """Whether nothing came within the window."""
        return not self._num_asked and not self._admitted

    def ask(self) -> None:
        """A request wants to come in."""
        self._num_asked += 1

    def window(self) -> Window:
        """What has come to this gateway."""
        now_s = self._clock()
        since_s = now_s - self._refreshed_s
        is_fresh = since_s < self._config.refresh_s / 2  # too little has come yet to tell by
        asked_per_s = self._asked_before_per_s if is_fresh else self._num_asked / since_s
        return Window(admitted_per_s=self._mean_per_s(now_s), asked_per_s=asked_per_s)

    def refresh(self, others: Window, num_gateways: int) -> None:
        """Set the limit anew, by what has come here and to other gateways."""
        self._others, self._num_gateways = others, num_gateways
        self._refresh(self._clock())

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
            self._refresh(now_s)
        self._fill(now_s)
        return now_s

    def _refresh(self, now_s: float) -> None:
        self._fill(now_s)
        own = self.window()
        config, mean_per_s = self._config, own.admitted_per_s + self._others.admitted_per_s
        of_all = min(config.ceiling_per_s, max(config.floor_per_s, mean_per_s * config.factor))
        self.limit_per_s = own_share(of_all, own, self._others, self._num_gateways)
        self._refreshed_s, self._num_asked, self._asked_before_per_s = now_s, 0, own.asked_per_s

    def _fill(self, now_s: float) -> None:
        self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self.limit_per_s)
        self._filled_s = now_s

    def _mean_per_s(self, now_s: float) -> float:
        window_s = self._config.window_s
        while self._admitted and self._admitted[0][0] <= now_s - window_s:
            self._admitted.popleft()
        return sum(count for _, count in self._admitted) / window_s
