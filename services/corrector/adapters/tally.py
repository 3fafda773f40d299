"""What was counted of a candidate on live failures, beside the present adapter and in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import sqrt

WORSE_BY = 1.645
"""Standard deviations; a share that is lower by more counts as lower (one case in twenty by chance)."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Since the candidate is one; every request is compared, whichever of both answers it."""

    compared: int = 0
    same: int = 0
    """Compared ones in which both proposed the same."""
    candidate_proposals: int = 0
    present_proposals: int = 0
    equal_proposals: int = 0
    """Of both: the same value at the same place."""
    candidate_failed: int = 0
    """It could not be asked, or not in time."""
    present_failed: int = 0
    skipped: int = 0
    """Not compared: too many were under way."""
    candidate_ms: int = 0
    present_ms: int = 0
    """Sums over those compared."""
    candidate_answered: int = 0
    candidate_valid: int = 0
    """Of those it answered: the correction was valid in the end."""
    candidate_certain: int = 0
    present_answered: int = 0
    present_valid: int = 0
    present_certain: int = 0

    def problems(self, min_compared: int, min_answered: int) -> list[str]:
        """Why the candidate has not stood the test, in words."""
        found = []
        if self.compared < min_compared:
            found.append(f"it was compared on {self.compared} live corrections, {min_compared} are needed")
        if self.candidate_answered < min_answered:
            found.append(
                f"it has answered {self.candidate_answered} live corrections, {min_answered} are needed; "
                "`stagemesh corrector canary` gives it a share"
            )
        tried = self.compared + self.candidate_failed + self.present_failed
        if _is_lower(tried - self.candidate_failed, tried, tried - self.present_failed, tried):
            found.append(f"it failed {self.candidate_failed} times, the present one {self.present_failed} times")
        if _is_lower(self.candidate_valid, self.candidate_answered, self.present_valid, self.present_answered):
            found.append(
                f"{self.candidate_valid} of {self.candidate_answered} corrections were valid with it, "
                f"{self.present_valid} of {self.present_answered} with the present one"
            )
        return found


NAMES = frozenset(field.name for field in fields(Tally))


def tally_of(counts: Mapping[bytes, bytes]) -> Tally:
    """From a hash in Redis; names of other versions are left out."""
    known = {name.decode(): int(count) for name, count in counts.items()}
    return Tally(**{name: count for name, count in known.items() if name in NAMES})


def _is_lower(left: int, left_of: int, right: int, right_of: int) -> bool:
    """Whether the share on the left is lower than chance explains."""
    if not left_of or not right_of:
        return False
    pooled = (left + right) / (left_of + right_of)
    deviation = sqrt(pooled * (1 - pooled) * (1 / left_of + 1 / right_of))
    return left / left_of < right / right_of - WORSE_BY * deviation
