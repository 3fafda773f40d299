"""What the directory counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SpaceStats:
    num_bytes: int
    """Of this namespace, as the server's allocator counts."""
    pages: int
    pinned_bytes: int
    published: int
    evicted: int
    expired: int
    vanished: int
    forgotten: int
    total_bytes: int
    """Of all namespaces."""
    spaces: int
    total_budget_bytes: int
    budget_bytes: int


def read_stats(reply: list[Any]) -> SpaceStats:
    """From the reply of `stats.lua`."""
    num_bytes, pages, flat, total, spaces, total_budget, budget = reply
    sums = {bytes(name): int(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    return SpaceStats(
        num_bytes=int(num_bytes),
        pages=int(pages),
        pinned_bytes=sums.get(b"pinned", 0),
        published=sums.get(b"published", 0),
        evicted=sums.get(b"evicted", 0),
        expired=sums.get(b"expired", 0),
        vanished=sums.get(b"vanished", 0),
        forgotten=sums.get(b"forgotten", 0),
        total_bytes=int(total),
        spaces=int(spaces),
        total_budget_bytes=int(total_budget),
        budget_bytes=int(budget),
    )
