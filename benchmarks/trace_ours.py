"""Our policy on recorded requests: the functions and the learner that the cache service uses."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from benchmarks.trace_requests import TraceRequest, TraceVisit, visits, visits_without_sessions
from stagemesh.runtime.kv_value import LearnerLimits, ReturnLearner, touched

REFIT_EVERY_S = 60.0


class ScoredBlocks:
    """Blocks by score, as the directory holds them: the lowest goes first, of equal ones the later in a chain."""

    def __init__(self, capacity: int, tau_s: float) -> None:
        self._capacity = capacity
        self._tau_s = tau_s
        self._scores: dict[int, float] = {}
        self._queue: list[tuple[float, int, int]] = []

    def __contains__(self, block: int) -> bool:
        return block in self._scores

    def use(self, block: int, depth: int, now_s: float, horizon_s: float) -> None:
        before = self._scores.get(block)
        score = now_s + horizon_s if before is None else touched(before, now_s, horizon_s, self._tau_s)
        self._scores[block] = score
        heapq.heappush(self._queue, (score, -depth, block))

    def evict(self) -> None:
        while len(self._scores) > self._capacity:
            score, _, block = heapq.heappop(self._queue)
            if self._scores.get(block) == score:
                del self._scores[block]


def ours(requests: Sequence[TraceRequest], capacity: int) -> int:
    """Number of hits where requests name their sessions."""
    return _hits(visits(requests), capacity)


def ours_without_sessions(requests: Sequence[TraceRequest], capacity: int) -> int:
    """The same where none does."""
    return _hits(visits_without_sessions(requests, LearnerLimits().max_visits), capacity)


def _hits(seen_visits: Iterable[TraceVisit], capacity: int) -> int:
    """The last block of a prompt, if partly filled, is not stored: the product stores full pages."""
    limits = LearnerLimits()
    learner = ReturnLearner(limits)
    held = ScoredBlocks(capacity, limits.tau_s)
    next_refit_s, hits = REFIT_EVERY_S, 0
    for index, seen in enumerate(seen_visits):
        request = seen.request
        if request.at_s >= next_refit_s:
            learner.refit(request.at_s)
            next_refit_s = request.at_s + REFIT_EVERY_S
        horizons = learner.visited(index, seen.visit, request.at_s, seen.previous)
        for depth, block in enumerate(request.blocks):
            hits += block in held
            if depth < request.num_full_blocks:
                horizon_s = horizons.known_s if depth < seen.num_known_blocks else horizons.new_s
                held.use(block, depth, request.at_s, horizon_s)
        held.evict()
    return hits
