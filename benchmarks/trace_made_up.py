"""Requests of made-up conversations, in the form of a recorded trace, for checks that need no recording."""

from __future__ import annotations

import random

from benchmarks.trace_requests import BLOCK_TOKENS, TraceRequest


def conversations(seed: int, count: int = 150) -> list[TraceRequest]:
    """In order of time. Half of the conversations end after one turn; all share their first block."""
    draw = random.Random(seed)
    requests, fresh = [], 1
    for number in range(count):
        blocks, at_s = [0], 5.0 * number
        for _ in range(draw.choice((1, 1, 3, 6))):
            grown = draw.randint(1, 6)
            blocks += range(fresh, fresh + grown)
            fresh += grown
            requests.append(TraceRequest(at_s, tuple(blocks), len(blocks) * BLOCK_TOKENS, 200))
            at_s += draw.uniform(20, 200)
    return sorted(requests, key=lambda request: request.at_s)
