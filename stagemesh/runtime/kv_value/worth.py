"""What keeping a page is worth, as a time: eviction takes the page whose time lies furthest back.

A page that returns with chance p, after a gap with time constant tau, saves its recomputing; per byte that is
`p * recompute / bytes`, and it fades with `exp(-age / tau)`. Ordering pages by that is ordering them by
`last use + tau * ln(p * recompute / bytes)`, which does not change while time passes: so a sorted set finds the lowest.
"""

from __future__ import annotations

import math

MIN_CHANCE = 1e-4
"""No page is so hopeless, or so sure, that a measured one could not overtake it."""
MAX_DEPTH_FACTOR = 16.0


def horizon_s(chance: float, tau_s: float, *, recompute: float = 1.0, num_bytes: float = 1.0) -> float:
    """How far in the future a page's last use seems to lie. Finite for all finite, positive arguments.

    `recompute` and `num_bytes` are those of this page over those of an ordinary one.
    """
    chance = min(max(chance, MIN_CHANCE), 1.0 - MIN_CHANCE)
    return tau_s * math.log(chance * recompute / num_bytes)


def touched(score_s: float, now_s: float, horizon: float, tau_s: float) -> float:
    """The score of a page that is used again: its worth now and what is left of the earlier uses add up."""
    high, low = max(score_s, now_s + horizon), min(score_s, now_s + horizon)
    return high + tau_s * math.log1p(math.exp((low - high) / tau_s))


def recompute_factor(first_token: int, attention_tokens: float) -> float:
    """What a page costs to compute behind `first_token` others, over the first page of a prompt.

    `attention_tokens` is the depth at which attention costs as much as everything else.
    """
    return min(1.0 + first_token / attention_tokens, MAX_DEPTH_FACTOR)
