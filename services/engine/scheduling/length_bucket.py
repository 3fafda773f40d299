"""Length buckets: requests that cost alike are compared with each other."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS = (128, 1024, 8192)
"""Tokens that the first three buckets hold at most; the last one has no bound."""
NUM_BUCKETS = len(BOUNDS) + 1
NAMES = ("0-128", "128-1024", "1024-8192", "8192+")
SHORTEST = 0
LONG = 2
"""From this one on prompts are long: what they take is kept away from what shorter ones need."""


def bucket_of(num_tokens: int) -> int:
    """The bucket of a prompt with so many tokens to compute."""
    return bisect_left(BOUNDS, num_tokens)
