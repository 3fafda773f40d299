"""What stored KV costs a request whose prompt nobody has sent before, on the default model, through the whole mesh.

python benchmarks/miss_overhead.py [--quads 60] [--tokens 512] [--seconds 100] [--quick] [--busy] [--json]

Two meshes side by side, one as it comes and one that stores nothing. A quad is four prompts of equal length that begin
differently, so that none finds anything: one mesh, the other, the other, the first; which one begins changes from quad
to quad. What slows the machine down for a while, even more and more, falls on both sides of a quad alike.
`miss_overhead_percent` is the median over quads of how much longer the storing side took to its first tokens, with the
interval in which it lies with 95 %; `is_shown` says whether that interval ends below `at_most_percent`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cache_warmth import KINDS, PATIENT, Prompts, Side, rotated, running, say
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.median_interval import median_interval
from benchmarks.own_mesh import OwnMesh, ask

AT_MOST_PERCENT = 2.0
PAUSE_S = 0.3
"""Between prompts, so that what is stored of one does not run into the next."""
WARM_UPS = 3


def overhead(cold_ms: Sequence[Sequence[float]], storing_ms: Sequence[Sequence[float]]) -> dict[str, object]:
    """From the times of each quad on both sides."""
    ratios = [sum(storing) / sum(cold) for cold, storing in zip(cold_ms, storing_ms, strict=True)]
    found = median_interval(ratios)
    percent = found.shifted()
    return {
        "quads": len(ratios),
        "miss_overhead_percent": percent["median"],
        "interval_percent": [percent["low"], percent["high"]],
        "at_most_percent": AT_MOST_PERCENT,
        "is_shown": found.is_within(float("-inf"), 1.0 + AT_MOST_PERCENT / 100),
    }


def measure(sides: Sequence[Side], num_quads: int, num_tokens: int, seconds: float) -> dict[str, object]:
    prompts, times = Prompts(), {side.name: list[list[float]]() for side in sides}
    for _ in range(WARM_UPS):
        for side in sides:
            ask(side.stub, prompts.text(num_tokens), num_output=1)
    end_s = time.monotonic() + seconds
    for number in range(num_quads):
        if time.monotonic() > end_s:
            break
        one, other = rotated(sides, number)
        quad = {side.name: list[float]() for side in sides}
        for side in (one, other, other, one):
            time.sleep(PAUSE_S)
            quad[side.name].append(ask(side.stub, prompts.text(num_tokens), num_output=1).ttft_ms)
        for name, found in quad.items():
            times[name].append(found)
        if sys.stderr.isatty():
            print(f"{number + 1} of {num_quads}", end="\r", file=sys.stderr)
    medians = {name: median_interval([ms for quad in quads for ms in quad]).median for name, quads in times.items()}
    return {
        "ttft_ms": {name: round(ms, 1) for name, ms in medians.items()},
        **overhead(times["cold"], times["bf16"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quads", type=int, default=60, help="of four prompts each")
    parser.add_argument("--tokens", type=int, default=512, help="length of a prompt")
    parser.add_argument("--seconds", type=float, default=600.0, help="begin no quad after them")
    parser.add_argument("--quick", action="store_true", help="two quads of 64 tokens: whether it works")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    quads, tokens = (2, 64) if given.quick else (given.quads, given.tokens)
    kinds = ("cold", "bf16")
    with no_lock() if given.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        meshes = {name: OwnMesh(Path(folder) / name) for name in KINDS if name in kinds}
        with running(meshes, PATIENT if given.busy else {}) as sides:
            report = {"machine": describe_machine(), **measure(sides, quads, tokens, given.seconds)}
            say("stopping every process")
    print(json.dumps(report, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
