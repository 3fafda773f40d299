"""How many prompt tokens each sequence computes in a step that is bounded in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.engine.scheduling.length_bucket import LONG, SHORTEST, bucket_of
from services.engine.scheduling.step_cost import StepCost

MIN_CHUNK = 8
"""Tokens that a step takes of a prompt in any case, so that it gets on."""
GRAIN = 8
"""Chunks are cut to whole multiples, which is how the kernels take rows."""
OLDEST_SHARE = 0.25
"""Of the time for prompts that the oldest one has in the long run, whatever else comes."""
TAIL = 0.5
"""Of what a bounded step takes of a lone prompt: a rest no larger than this comes along, since a step of its own would
read all weights once more."""
MAX_OWED_S = 1.0
"""How much of that share the oldest may be behind before it takes it."""


@dataclass(frozen=True)
class Need:
    """A prompt, in order of urgency."""

    num_uncomputed: int
    depth: int
    """Tokens of it that are computed."""
    is_oldest: bool = False


@dataclass(frozen=True)
class Bounds:
    """Of one step."""

    max_tokens: int
    seconds: float
    """For prompts; infinite where steps are not bounded."""
    is_alone: bool = False
    """Nothing decodes and no other prompt is computed: nobody in the step waits for its end."""


def share(needs: Sequence[Need], bounds: Bounds, cost: StepCost, oldest_owed_s: float = 0.0) -> list[int]:
    """Tokens for each of `needs`, in their order.

    The first takes what it needs, then the next, while seconds and tokens last. A long prompt takes nothing beside
    a short one that this step completes, whose first token would wait for it; nor does any prompt, beside the first,
    take a chunk too small to be worth its row. The oldest comes first where it is owed its share.
    """
    left_s, left_tokens = bounds.seconds, bounds.max_tokens
    shares = [0] * len(needs)
    completes_short = False
    for index in _order(needs, oldest_owed_s):
        need = needs[index]
        is_first, is_debt = not any(shares), need.is_oldest and oldest_owed_s >= MAX_OWED_S
        if completes_short and bucket_of(need.num_uncomputed) >= LONG:
            continue
        part = OLDEST_SHARE if is_debt and len(needs) > 1 else 1.0
        most = max(MIN_CHUNK, int(part * left_tokens)) if part < 1 else left_tokens
        seconds = min(left_s, part * bounds.seconds)
        affordable = _affordable(need, seconds, cost, is_first=is_first)
        if bounds.is_alone and need.num_uncomputed <= (1 + TAIL) * affordable:
            affordable = need.num_uncomputed
        taken = min(need.num_uncomputed, most, left_tokens, affordable)
        if taken <= 0:
            continue
        shares[index] = taken
        left_tokens -= taken
        left_s -= cost.prompt_s(taken, need.depth)
        completes_short |= taken == need.num_uncomputed and bucket_of(taken) == SHORTEST and not is_debt
    return shares


def _order(needs: Sequence[Need], oldest_owed_s: float) -> list[int]:
    order = list(range(len(needs)))
    if oldest_owed_s >= MAX_OWED_S:
        order.sort(key=lambda index: not needs[index].is_oldest)
    return order


def _affordable(need: Need, seconds: float, cost: StepCost, *, is_first: bool) -> int:
    if seconds == float("inf"):
        return need.num_uncomputed
    if not cost.is_known:
        return MIN_CHUNK if is_first else 0
    within = cost.tokens_within(seconds, need.depth)
    if within >= need.num_uncomputed:
        return need.num_uncomputed
    return max(within - within % GRAIN, MIN_CHUNK if is_first else 0)
