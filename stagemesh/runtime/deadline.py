"""Deadlines: one per request, absolute, passed on at every hop minus a margin."""

from __future__ import annotations

import time
from dataclasses import dataclass

from stagemesh.runtime.errors import DeadlineExceeded

HOP_MARGIN_S = 0.005
"""Kept back at each hop, so that the caller of a late callee still has time to say so."""


@dataclass(frozen=True)
class Deadline:
    """A point on the monotonic clock."""

    at_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def remaining_s(self) -> float:
        return max(0.0, self.at_s - time.monotonic())

    def expired(self) -> bool:
        return self.remaining_s() <= 0.0

    def budget_s(self, at_most_s: float | None = None) -> float:
        """Seconds for the next hop: what remains minus the margin, at most `at_most_s`.

        Raises DeadlineExceeded when nothing remains, so that no hop is started in vain.
        """
        budget = self.remaining_s() - HOP_MARGIN_S
        if budget <= 0.0:
            raise DeadlineExceeded("DEADLINE_EXCEEDED", "the request's deadline has passed")
        return budget if at_most_s is None else min(budget, at_most_s)

    def unix_us(self) -> int:
        """The same point as Unix time in microseconds, for messages."""
        return int((time.time() + self.remaining_s()) * 1e6)
