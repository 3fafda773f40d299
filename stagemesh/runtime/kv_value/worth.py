"""What keeping a page is worth, as a time: eviction takes the page whose time lies furthest back.

A page that returns with chance p, after a gap with time constant tau, saves the seconds of computing it; per byte that
is `p * seconds / bytes`, and it fades with `exp(-age / tau)`. Ordering pages by that is ordering them by
`last use + tau * ln(p) + tau * ln(seconds / bytes)`, which does not change while time passes: so a sorted set finds the
lowest. The cache service knows the second term (`horizon_s`), an engine the third (`cost_s`).
"""

from __future__ import annotations

import math

MIN_CHANCE = 1e-4
"""No page is so hopeless, or so sure, that a measured one could not overtake it."""
REFERENCE_S_PER_BYTE = 3e-8
"""What counts as an ordinary page: 11 ms for 16 tokens in 360 KiB, as a model of 135 million parameters in bfloat16
takes at 1,450 tokens a second. It matters only beside pages whose cost is unknown, which count as ordinary."""
MAX_COST_RATIO = 1_000.0
"""Pages are at most so many times dearer or cheaper than ordinary ones: a wrong measurement has bounds."""


def horizon_s(chance: float, tau_s: float) -> float:
    """How far in the future a page's last use seems to lie. Finite for all finite, positive arguments."""
    return tau_s * math.log(min(max(chance, MIN_CHANCE), 1.0 - MIN_CHANCE))


def cost_s(page_s: float, num_bytes: float, tau_s: float) -> float:
    """How much longer a page is kept than an ordinary one: it takes `page_s` to compute and `num_bytes` to store.

    The same for all pages that are published together, and not growing with depth, although attention makes later pages
    dearer: a page is of no use without those before it, so it must never outlive them. Zero where a cost is unknown.
    """
    if not all(0.0 < known < math.inf for known in (page_s, num_bytes, tau_s)):
        return 0.0
    ratio = page_s / num_bytes / REFERENCE_S_PER_BYTE
    return tau_s * math.log(min(max(ratio, 1.0 / MAX_COST_RATIO), MAX_COST_RATIO))


def touched(score_s: float, now_s: float, horizon: float, tau_s: float) -> float:
    """The score of a page that is used again: its worth now and what is left of the earlier uses add up."""
    high, low = max(score_s, now_s + horizon), min(score_s, now_s + horizon)
    return high + tau_s * math.log1p(math.exp((low - high) / tau_s))
