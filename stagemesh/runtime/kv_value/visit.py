"""What is known of a request when its pages are looked up, and what follows from that about their return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

PASSAGE_TOKENS = 512
"""Sizes count in passages of this length, so that a few words more or less do not matter."""
FOREIGN_TOKENS = 1_500
"""More than a person types at once: something was pasted or looked up."""


class Region(Enum):
    """The two parts of a prompt, which return with different odds."""

    KNOWN = "known"
    """Was part of an earlier prompt or answer."""
    NEW = "new"
    """Is seen for the first time."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A request as the cache sees it. All follows from the past; nothing needs its answer."""

    prompt_tokens: int
    known_tokens: int = 0
    """Of the prompt, those that an earlier request held at the same place."""
    turn: int = 1
    """Number of the turn in its conversation, from 1."""
    remembered_tokens: int = 0
    """Length of the conversation after its last turn, answer included; 0 on the first."""
    idle_s: float = 0.0
    """Since its last turn."""

    @property
    def new_tokens(self) -> int:
        return self.prompt_tokens - self.known_tokens

    def tokens(self, region: Region) -> int:
        return self.known_tokens if region is Region.KNOWN else self.new_tokens


PRIOR = {
    "always": -0.5,  # about one conversation in three goes on
    "known": 0.0,
    "turns": 0.7,  # who has come back often comes back again
    "first": -0.3,
    "new size, of new": -0.3,  # long material is read once
    "new size, of known": 0.0,
    "foreign, of new": -1.0,  # looked up for this one answer
    "foreign, of known": -0.5,
    "dropped, of new": -0.5,  # an answer was replaced, or material taken out again
    "idle": -0.1,  # who was slow to come back is less certain to
    "length": 0.0,
}
"""Weights before anything is learned, from general reasoning; each is a change of the log odds."""


def features(visit: Visit, region: Region) -> tuple[float, ...]:
    """One number for each key of PRIOR."""
    is_new = float(region is Region.NEW)
    is_known = 1.0 - is_new
    continues = float(visit.turn > 1)
    added = visit.prompt_tokens - visit.remembered_tokens
    foreign = continues * float(added > FOREIGN_TOKENS)
    dropped = continues * float(visit.remembered_tokens - visit.known_tokens > 2 * PASSAGE_TOKENS)
    new_size = math.log1p(visit.new_tokens / PASSAGE_TOKENS)
    return (
        1.0,
        is_known,
        math.log(visit.turn),
        1.0 - continues,
        new_size * is_new,
        new_size * is_known,
        foreign * is_new,
        foreign * is_known,
        dropped * is_new,
        continues * math.log1p(visit.idle_s),
        math.log1p(visit.prompt_tokens / PASSAGE_TOKENS),
    )
