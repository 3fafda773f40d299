"""How much two answers differ."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Indel


def similarity(left: str, right: str) -> float:
    """Share of characters that an edit by insertions and deletions keeps: 1 for equal, 0 for disjoint texts."""
    return float(Indel.normalized_similarity(left, right))


def first_divergence(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first difference; where one is the beginning of the other, its length; None when equal."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))
