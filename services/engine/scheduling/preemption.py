"""How the pages of a sequence that has to give way come back: computed again, or copied to host memory and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Way(Enum):
    RECOMPUTE = "recompute"
    HOST = "host"


@dataclass(frozen=True)
class PageSeconds:
    """What a page takes; infinite or 0 where it cannot be done or is not known."""

    compute_s: float
    copy_s: float
    """Out of the pool and back, by the measured rate of loading."""


def cheaper_way(num_pages: int, num_copied_pages: int, seconds: PageSeconds) -> Way:
    """For a sequence of `num_pages` full pages, of which host memory has `num_copied_pages` already.

    What has to be copied out goes the way twice. While computing has not been measured, pages are computed again, since
    that is always right.
    """
    if not num_pages or not seconds.compute_s:
        return Way.RECOMPUTE
    copying_s = seconds.copy_s * (num_pages + (num_pages - num_copied_pages))
    return Way.HOST if copying_s < num_pages * seconds.compute_s else Way.RECOMPUTE
