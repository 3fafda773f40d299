"""How likely each candidate is for each field, given that a value of the source is only one field's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

MAX_ASSIGNMENTS = 20_000
"""That are gone through; with more fields and candidates each field is looked at alone."""
NOTHING = -1
FLOOR = 1e-9


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One field: how likely each of some values follows its question, each on its own."""

    probabilities: Mapping[str, float]
    """Value → probability; what is left belongs to anything else, or to no value at all."""


def shared_out(contenders: Sequence[Contender], num_places: Mapping[str, int]) -> list[dict[str, float]]:
    """For each field, the probability of each value, over all ways in which no value is used more often than it stands
    in the source."""
    options = [list(contender.probabilities.items()) for contender in contenders]
    if math.prod(len(option) + 1 for option in options) > MAX_ASSIGNMENTS:
        return [dict(contender.probabilities) for contender in contenders]
    rests = [max(FLOOR, 1.0 - sum(contender.probabilities.values())) for contender in contenders]
    sums = [dict.fromkeys(contender.probabilities, 0.0) for contender in contenders]
    total = 0.0
    for choice in product(*(range(NOTHING, len(option)) for option in options)):
        weight, used = 1.0, dict[str, int]()
        for field, at in enumerate(choice):
            if at == NOTHING:
                weight *= rests[field]
                continue
            value, probability = options[field][at]
            used[value] = used.get(value, 0) + 1
            if used[value] > num_places[value]:
                weight = 0.0
                break
            weight *= probability
        if weight:
            total += weight
            for field, at in enumerate(choice):
                if at != NOTHING:
                    sums[field][options[field][at][0]] += weight
    return [{value: share / total for value, share in each.items()} for each in sums]
