"""What a second busy process on the same cores costs an engine: Stagemesh and llama.cpp, alone and in company.

    python benchmarks/engine_contention.py [--json] [--quick] [--threads 1,2] [--repeats 3]

The engine has as many threads as cores, and one process that only counts shares those cores. `retained` is the engine's
throughput in company over that alone, `fair` what an even split among all threads leaves, `left` the part of the cores
that the other process did not take: an engine whose threads wait for one that is not running falls far below both.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from benchmarks.lock import ROOT, benchmark_lock
from benchmarks.machine import describe_machine, machine_slug
from benchmarks.peers import stagemesh_engine
from benchmarks.peers.cache import say
from benchmarks.peers.case import Case
from benchmarks.peers.contender import Contender
from benchmarks.peers.llama_cpp import LlamaCpp
from benchmarks.peers.worker import pinned

CASES = (
    Case(name="decode", num_requests=1, num_prompt=128, num_output=128, counts="decode"),
    Case(name="batch16", num_requests=16, num_prompt=128, num_output=64, counts="output"),
)
QUICK_CASES = (Case(name="decode", num_requests=1, num_prompt=16, num_output=16, counts="decode"),)


@dataclass(frozen=True, kw_only=True)
class Company:
    """A run beside the busy process."""

    tok_s: float
    busy_cores: float
    """Processor time of the busy process over the time of the run."""


def main() -> None:
    args = parse_arguments()
    contenders: list[Contender] = [*stagemesh_engine.contenders(), LlamaCpp(format="Q4_0")]
    for contender in contenders:
        contender.install()
    cases, repeats = (QUICK_CASES, 1) if args.quick else (CASES, args.repeats)
    rows: list[dict[str, Any]] = []
    with benchmark_lock(), contextlib.ExitStack() as closing:
        machine = describe_machine()
        for contender in contenders:
            closing.callback(contender.close)
        for threads in args.threads:
            for case in cases:
                rows.extend(compare(contender, case, threads, repeats) for contender in contenders)
    result = {"date": time.strftime("%Y-%m-%d"), "machine": machine, "contention": rows}
    if not args.quick:
        path = ROOT / "benchmarks" / "results" / f"engine_contention-{machine_slug()}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(rows), file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print(json.dumps(result))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end stdout with one JSON object")
    parser.add_argument("--quick", action="store_true", help="a few tokens, one run: shows that it works")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3, help="alternating runs alone and in company")
    return parser.parse_args()


def compare(contender: Contender, case: Case, threads: int, repeats: int) -> dict[str, Any]:
    """Medians of alternating runs alone and in company."""
    alone: list[float] = []
    company: list[Company] = []
    contender.measure(case, threads)  # loads, and warms up
    for number in range(repeats):
        alone.append(contender.measure(case, threads).tok_s)
        company.append(measure_in_company(contender, case, threads))
        say(
            f"{threads} threads, {case.name}, {number + 1} of {repeats}",
            f"{contender.name}: {alone[-1]:.1f} tok/s alone, {company[-1].tok_s:.1f} in company",
        )
    alone_tok_s = statistics.median(alone)
    company_tok_s = statistics.median(run.tok_s for run in company)
    return {
        "contender": contender.name,
        "case": case.name,
        "threads": threads,
        "alone_tok_s": round(alone_tok_s, 2),
        "company_tok_s": round(company_tok_s, 2),
        "retained": round(company_tok_s / alone_tok_s, 3),
        "fair": round(threads / (threads + 1), 3),
        "left": round(1 - statistics.median(run.busy_cores for run in company) / threads, 3),
    }


def measure_in_company(contender: Contender, case: Case, threads: int) -> Company:
    with busy_process(threads) as busy:
        started_s, started_cpu_s = time.monotonic(), busy.cpu_times().user
        tok_s = contender.measure(case, threads).tok_s
        elapsed_s = time.monotonic() - started_s
        return Company(tok_s=tok_s, busy_cores=(busy.cpu_times().user - started_cpu_s) / elapsed_s)


@contextlib.contextmanager
def busy_process(threads: int) -> Iterator[psutil.Process]:
    """A process that counts for ever on the cores that an engine with `threads` has."""
    command = [*pinned(threads), sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(command) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    keys = ("contender", "case", "threads", "alone_tok_s", "company_tok_s", "retained", "fair", "left")
    lines = [keys, ["---"] * len(keys), *([str(row[key]) for key in keys] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
