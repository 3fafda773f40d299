"""One workload through a service and in process, in turn, so that what else the machine does meets both."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from services.engine.core import EngineCore
from services.engine.measure import Speed, Workload, run_workload
from stagemesh.cli.bench.engine import OnProgress
from stagemesh.cli.bench.first_token import NUM_PAIRS, measure_first_tokens
from stagemesh.cli.bench.streams import Stream, output_tok_s, percentiles

SINGLE = Workload(num_prompt=128, num_output=64)
BATCH = Workload(num_sequences=16, num_prompt=128, num_output=128)
QUICK_SINGLE = Workload(num_prompt=32, num_output=8)
QUICK_PAIRS = 2
QUICK_BATCH = Workload(num_sequences=4, num_prompt=32, num_output=8)

Serve = Callable[[Workload], Awaitable[list[Stream]]]


@dataclass(frozen=True)
class ComparePlan:
    serve: Serve
    processes: Mapping[str, int]
    """Name → ID of the processes on this machine that serve."""
    repeats: int = field(kw_only=True)
    quick: bool = field(kw_only=True)


@dataclass
class Comparison:
    """Pairs of runs of one workload."""

    served: list[list[Stream]] = field(default_factory=list)
    cpu_s: list[Mapping[str, float]] = field(default_factory=list)
    """Processor time of each process in each served run."""
    in_process: list[Speed] = field(default_factory=list)
    num_prompt: int = 0

    def cpu_ms_a_token(self) -> dict[str, float]:
        """Processor time for an output token, prompts included: comparable on a busy machine with one thread."""
        num_tokens = [sum(len(stream.token_times_s) for stream in run) for run in self.served]
        by_process = {
            name: statistics.median(1e3 * cpu[name] / count for cpu, count in zip(self.cpu_s, num_tokens, strict=True))
            for name in self.cpu_s[0]
        }
        num_output = len(self.served[0][0].token_times_s)
        alone = statistics.median(
            (speed.prefill_cpu_ms * self.num_prompt + speed.decode_cpu_ms * (num_output - 1)) / num_output
            for speed in self.in_process
        )
        return {name: round(value, 3) for name, value in {"in_process": alone, **by_process}.items()}

    def ratio(self) -> float:
        """Median, over the pairs, of served throughput by throughput in process."""
        pairs = zip(self.served, self.in_process, strict=True)
        return round(statistics.median(output_tok_s(streams) / speed.output_tok_s for streams, speed in pairs), 3)

    def figures(self) -> dict[str, Any]:
        streams = [stream for run in self.served for stream in run]
        return {
            "output_tok_s": round(statistics.median(output_tok_s(run) for run in self.served), 2),
            "in_process_output_tok_s": round(statistics.median(s.output_tok_s for s in self.in_process), 2),
            "ratio": self.ratio(),
            "ttft_ms": percentiles([stream.ttft_ms for stream in streams]),
            "itl_ms": percentiles([gap for stream in streams for gap in stream.gaps_ms]),
            "cpu_ms_a_token": self.cpu_ms_a_token(),
        }


async def compare(
    plan: ComparePlan, core: EngineCore, workload: Workload, repeats: int, on_progress: OnProgress
) -> Comparison:
    """Runs in turn: one through `serve`, one in process with the same number of tokens."""
    found = Comparison()
    for number in range(1, repeats + 1):
        on_progress(f"{workload.num_sequences} at once, {number} of {repeats}")
        before = cpu_s(plan.processes)
        streams = await plan.serve(workload)
        found.cpu_s.append({name: after - before[name] for name, after in cpu_s(plan.processes).items()})
        found.num_prompt = _mean_prompt(streams)
        alike = replace(workload, num_prompt=found.num_prompt)
        found.served.append(streams)
        found.in_process.append(await asyncio.to_thread(run_workload, core, alike))
    return found


async def compare_both(plan: ComparePlan, core: EngineCore, on_progress: OnProgress) -> dict[str, Any]:
    """First tokens, a single stream and a batch of 16."""
    await plan.serve(QUICK_BATCH)  # connections, and what is made at first use
    on_progress("first tokens")
    first = await measure_first_tokens(plan.serve, core, QUICK_PAIRS if plan.quick else NUM_PAIRS)
    cases = ((QUICK_SINGLE, 1), (QUICK_BATCH, 1)) if plan.quick else ((SINGLE, 2 * plan.repeats), (BATCH, plan.repeats))
    single, batch = [await compare(plan, core, workload, repeats, on_progress) for workload, repeats in cases]
    return {
        "first_token": first.figures(),
        "single": {**single.figures(), "added_ttft_ms": first.figures()["added_ttft_ms"]["p50"]},
        "batch16": batch.figures(),
    }


def cpu_s(processes: Mapping[str, int]) -> dict[str, float]:
    """Processor time that each process has used so far."""
    times = {name: psutil.Process(pid).cpu_times() for name, pid in processes.items()}
    return {name: spent.user + spent.system for name, spent in times.items()}


def _mean_prompt(streams: Sequence[Stream]) -> int:
    return round(statistics.mean(stream.num_prompt for stream in streams))
