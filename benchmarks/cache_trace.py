"""Block hit ratios on a recorded hour of conversations: our eviction policy against LRU, LFU, S3-FIFO and the optimum.

python benchmarks/cache_trace.py [--json] [--requests 1500] [--trace FILE] [--oracles]

The budgets are 10 % and 25 % of the trace's distinct bytes; every block is of one size. `optimal` knows the future
(Belady, with bypass) and `ours` does not: it starts from the stated prior weights and learns from what it has replayed.
`ours_without_sessions` is the same where no request names its session. `--requests` replays the beginning only;
`--oracles` adds what more knowledge would be worth (`trace_oracles.py`). `--directory` sends the trace, its time
compressed, through the directory of the product on a real Valkey instead, and says how much memory it took and whether
a key had no TTL.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.kv_server import running_valkey
from benchmarks.trace_directory import replay
from benchmarks.trace_oracles import oracles
from benchmarks.trace_ours import ours, ours_without_sessions
from benchmarks.trace_policies import POLICIES
from benchmarks.trace_requests import DEFAULT_TRACE, TraceRequest, num_distinct, read_trace

BUDGETS_PERCENT = (10, 25)


def hit_ratios(requests: Sequence[TraceRequest], capacity: int) -> dict[str, float]:
    """Share of all block uses that found their block, by policy."""
    blocks = [block for request in requests for block in request.blocks]
    ratios = {}
    for name, replayed in (("ours", ours), ("ours_without_sessions", ours_without_sessions)):
        ratios[name] = replayed(requests, capacity) / len(blocks)
        progress(name, ratios[name])
    for name, policy in POLICIES.items():
        ratios[name] = policy(blocks, capacity) / len(blocks)
        progress(name, ratios[name])
    return {name: round(ratio, 4) for name, ratio in ratios.items()}


def progress(name: str, ratio: float) -> None:
    print(f"  {name:22} {ratio:.4f}", file=sys.stderr, flush=True)


def gap_closed(ratios: dict[str, float]) -> float:
    """How much of the way from the best of the known policies to the optimum ours has come; 1 is all."""
    best = max(ratios[name] for name in ("lru", "lfu", "s3fifo"))
    return (ratios["ours"] - best) / (ratios["optimal"] - best) if ratios["optimal"] > best else 1.0


def report(requests: Sequence[TraceRequest], *, with_oracles: bool) -> dict[str, object]:
    distinct, budgets, closed = num_distinct(requests), {}, {}
    known = dict[str, dict[str, float]]()
    for percent in BUDGETS_PERCENT:
        capacity = distinct * percent // 100
        print(f"{percent} %: {capacity} of {distinct} blocks", file=sys.stderr, flush=True)
        budgets[str(percent)] = hit_ratios(requests, capacity)
        closed[str(percent)] = round(gap_closed(budgets[str(percent)]), 3)
        if with_oracles:
            known[str(percent)] = oracles(requests, capacity)
            for name, value in known[str(percent)].items():
                progress(name, value)
    uses = sum(len(request.blocks) for request in requests)
    return {
        "requests": len(requests),
        "block_uses": uses,
        "distinct_blocks": distinct,
        "gap_closed": closed,
        "budgets": budgets,
        **({"oracles": known} if known else {}),
    }


def report_of_directory(requests: Sequence[TraceRequest], speed: float) -> dict[str, object]:
    with TemporaryDirectory() as folder, running_valkey(Path(folder)) as url:
        result = replay(url, requests, percent=BUDGETS_PERCENT[0], speed=speed)
    for name, value in asdict(result).items():
        print(f"  {name:20} {value:,.4f}" if isinstance(value, float) else f"  {name:20} {value:,}", file=sys.stderr)
    return {"requests": len(requests), "directory": asdict(result)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE)
    parser.add_argument("--requests", type=int, help="replay only so many")
    parser.add_argument("--oracles", action="store_true", help="also what more knowledge would be worth")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--directory", action="store_true", help="through the real directory, at 10 %%")
    parser.add_argument("--speed", type=float, default=20.0, help="of time with --directory [default: 20]")
    options = parser.parse_args()
    start = time.monotonic()
    requests = read_trace(options.trace, options.requests)
    result = (
        report_of_directory(requests, options.speed)
        if options.directory
        else report(requests, with_oracles=options.oracles)
    )
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
