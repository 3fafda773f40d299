"""What the way to the engine adds to the time until the first token: short prompts, each also computed in process."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from services.engine.core import EngineCore
from services.engine.measure import Workload, run_workload
from stagemesh.cli.bench.streams import Stream

NUM_PAIRS = 30
PROMPT = Workload(num_prompt=32, num_output=2)
"""Short, so that the machine changes little between two of them; the second token keeps the answer's end out of it."""
SETTLE_S = 0.05
"""After an answer a gateway still has work that is off its caller's path; it is not to slow down what comes next."""


@dataclass(frozen=True)
class FirstTokens:
    """Pairs of times in ms, each pair with the same number of prompt tokens."""

    served_ms: list[float] = field(default_factory=list)
    in_process_ms: list[float] = field(default_factory=list)

    def added_ms(self) -> list[float]:
        """In each pair, what the way has added."""
        return [served - alone for served, alone in zip(self.served_ms, self.in_process_ms, strict=True)]

    def figures(self) -> dict[str, Any]:
        low, middle, high = statistics.quantiles(self.added_ms(), n=4, method="inclusive")
        return {
            "pairs": len(self.served_ms),
            "ttft_ms": round(statistics.median(self.served_ms), 2),
            "in_process_ttft_ms": round(statistics.median(self.in_process_ms), 2),
            "added_ttft_ms": {"p25": round(low, 2), "p50": round(middle, 2), "p75": round(high, 2)},
        }


async def measure_first_tokens(
    serve: Callable[[Workload], Awaitable[list[Stream]]], core: EngineCore, num_pairs: int = NUM_PAIRS
) -> FirstTokens:
    """One prompt through `serve`, then one in process, and so on; at least two pairs."""
    found = FirstTokens()
    for _ in range(num_pairs):
        (stream,) = await serve(PROMPT)
        await asyncio.sleep(SETTLE_S)
        speed = await asyncio.to_thread(run_workload, core, replace(PROMPT, num_prompt=stream.num_prompt))
        found.served_ms.append(stream.ttft_ms)
        found.in_process_ms.append(1e3 * stream.num_prompt / speed.prefill_tok_s)
    return found
