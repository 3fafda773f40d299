"""What looking up a value in a set of keys can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stagemesh.validation.forms import HAS_CJK

MAX_NEAR = 20
"""Keys that are told as equally near."""
MIN_EDIT_CHARS = 3
"""Shorter values are never taken for another key by an edit: half of `A1` would be guessed."""
MIN_CJK_EDIT_CHARS = 2
"""The same for values with a Chinese or Japanese character, each of which says as much as a syllable."""


class Match(Enum):
    EXACT = "exact"
    NEAR = "near"
    """One key alone can be meant."""
    AMBIGUOUS = "ambiguous"
    """Several are equally near, or so many are alike that they were not compared."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Found:
    match: Match
    keys: tuple[str, ...] = ()
    """The key, the one that is meant, or those that are equally near, up to MAX_NEAR."""

    @classmethod
    def of(cls, near: Sequence[str]) -> Found:
        """Of the keys that are equally near, one or more."""
        return cls(Match.NEAR if len(near) == 1 else Match.AMBIGUOUS, tuple(near[:MAX_NEAR]))


def may_be_edited(form: str) -> bool:
    """Whether a value is long enough for an edit of it to be told from another word."""
    return len(form) >= (MIN_CJK_EDIT_CHARS if HAS_CJK.search(form) else MIN_EDIT_CHARS)
