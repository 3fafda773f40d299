"""Two adapters on the same held-out fields, and when one counts as better."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

MAX_CHANCE = 0.05
"""A fair coin must be so unlikely to favour the candidate as much."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Fields with rivals of their type; the present one is an adapter, or the model without one."""

    fields: int
    candidate_right: int
    present_right: int
    only_candidate: int
    """Fields that it alone got right."""
    only_present: int
    candidate_sure: int
    """Fields above the margin that was right on the others."""
    candidate_sure_right: int
    present_sure: int
    present_sure_right: int

    @property
    def chance(self) -> float:
        """That a fair coin gives the candidate at least so many of the fields that one alone got right."""
        tries = self.only_candidate + self.only_present
        return float(sum(comb(tries, wins) for wins in range(self.only_candidate, tries + 1)) / 2**tries)

    def problems(self, min_fields: int) -> list[str]:
        """Why the candidate does not count as better, in words; none: it does."""
        found = []
        if self.fields < min_fields:
            found.append(f"{self.fields} fields were held out, {min_fields} are needed")
        if self.chance > MAX_CHANCE:
            found.append(
                f"{self.only_candidate} fields are right with the candidate alone and {self.only_present} with the "
                f"present one alone: chance does as much with a probability of {self.chance:.2f}, above {MAX_CHANCE}"
            )
        if _share(self.candidate_sure_right, self.candidate_sure) < _share(self.present_sure_right, self.present_sure):
            found.append(
                f"where it is sure it is right in {self.candidate_sure_right} of {self.candidate_sure}, "
                f"the present one in {self.present_sure_right} of {self.present_sure}"
            )
        return found


def _share(right: int, count: int) -> float:
    return right / count if count else 1.0
