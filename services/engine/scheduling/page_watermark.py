"""How full the pool may become by admission: what is admitted must have room to grow, and short ones a way in.

Pages are all of one size, so that a pool has no holes that a sequence would not fit into (decision 0256): what is free
in number is free for everybody, and no batch is made smaller because of where the free pages lie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from services.engine.scheduling.length_bucket import LONG

SHORT_RESERVE = 0.04
"""Part of the pool, and of the places, that long prompts leave to shorter ones."""
MIN_PLACES = 8
"""From so many places on, some are kept for shorter prompts."""


@dataclass(frozen=True)
class PageWatermark:
    num_pages: int
    max_running: int
    high: float = 0.92
    """Part of the pool from which on nothing more is admitted."""

    @property
    def num_reserved(self) -> int:
        """Pages that admission leaves to those that run."""
        return math.floor((1 - self.high) * self.num_pages)

    @property
    def num_short(self) -> int:
        """Pages that long prompts leave to shorter ones."""
        return math.floor(SHORT_RESERVE * self.num_pages)

    def pages_to_leave(self, bucket: int, num_admitted: int) -> int:
        """How many pages must stay free when one of that bucket is admitted beside `num_admitted` others.

        A page for each of those in any case, so that admitting does not force a preemption at once; alone, a sequence
        may have them all.
        """
        if not num_admitted:
            return 0
        kept = self.num_reserved + (self.num_short if bucket >= LONG else 0)
        return max(num_admitted, kept)

    def places(self, bucket: int) -> int:
        """How many may be admitted at once when the next one is of that bucket."""
        if bucket < LONG or self.max_running < MIN_PLACES:
            return self.max_running
        return self.max_running - max(1, math.floor(SHORT_RESERVE * self.max_running))
