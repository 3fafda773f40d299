"""Whether a request that waits can still be answered in time: if not, it is told before anything is computed for it."""

from __future__ import annotations

from collections.abc import Iterable

from services.engine.scheduling.length_bucket import bucket_of
from services.engine.scheduling.step_cost import StepCost
from stagemesh.runtime.errors import Exhausted

REASON = "DEADLINE_UNREACHABLE"
MIN_RETRY_AFTER_MS = 100
DOUBT = 2.0
"""An estimate that is wrong by less than this refuses nobody who could have been served: it is of the work of many, and
what it was measured on may have been a busy moment."""


def seconds_ahead(num_tokens: int, others: Iterable[tuple[int, int]], cost: StepCost) -> float:
    """What is computed before a prompt of `num_tokens`: the (uncomputed, depth) of others in its bucket or below."""
    bucket = bucket_of(num_tokens)
    return sum(cost.least_prompt_s(left, depth) for left, depth in others if bucket_of(left) <= bucket)


def refusal(remaining_s: float, needed_s: float) -> Exhausted | None:
    """Why a request is not begun that needs `needed_s` to its first token and has `remaining_s`."""
    if needed_s <= DOUBT * remaining_s:
        return None
    late_ms = int(1000 * (needed_s - max(0.0, remaining_s)))
    return Exhausted(
        REASON,
        f"its first token is estimated {needed_s:.1f} s away and the deadline {max(0.0, remaining_s):.1f} s: "
        "give it more time, or ask again when there is less to do",
        retry_after_ms=max(MIN_RETRY_AFTER_MS, late_ms),
    )
