"""What a caller of several streams sees: when each token came, and what follows from it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass
class Stream:
    """One request, on the clock of `time.perf_counter`."""

    started_s: float
    token_times_s: list[float] = field(default_factory=list)
    """When each output token was there."""
    num_prompt: int = 0

    @property
    def ttft_ms(self) -> float:
        return 1e3 * (self.token_times_s[0] - self.started_s)

    @property
    def gaps_ms(self) -> list[float]:
        """Between a token and the next; 0 for tokens that came together."""
        times = self.token_times_s
        return [1e3 * (after - before) for before, after in pairwise(times)]


def output_tok_s(streams: Sequence[Stream]) -> float:
    """Output tokens a second, from the first request to the last token."""
    began_s = min(stream.started_s for stream in streams)
    ended_s = max(stream.token_times_s[-1] for stream in streams)
    return sum(len(stream.token_times_s) for stream in streams) / (ended_s - began_s)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90 and p99."""
    if len(values) < 2:
        return {name: round(value, 3) for name in ("p50", "p90", "p99") for value in values}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 3), "p90": round(cuts[89], 3), "p99": round(cuts[98], 3)}
