"""Stagemesh's engine core in process on the native kernels, one token a step. Arguments: threads."""

from __future__ import annotations

import sys

from worker_loop import Case, answer_cases

from benchmarks.peers.checkpoint import default_model
from services.engine.config import EngineConfig
from services.engine.engine import load_model
from services.engine.measure import Speed, Workload, bench_core, run_workload


def main() -> None:
    core = bench_core(load_model(default_model(), EngineConfig(threads=int(sys.argv[1]), backend="native")))

    def measure(case: Case, number: int) -> tuple[int, float]:
        workload = Workload(
            num_sequences=case["num_requests"], num_prompt=case["num_prompt"], num_output=case["num_output"]
        )
        return counted(case["counts"], workload, run_workload(core, workload))

    answer_cases(measure)


def counted(counts: str, workload: Workload, speed: Speed) -> tuple[int, float]:
    """Tokens and seconds of what the case counts."""
    tokens, rate = {
        "decode": (workload.num_sequences * (workload.num_output - 1), speed.decode_tok_s),
        "prefill": (workload.num_sequences * workload.num_prompt, speed.prefill_tok_s),
        "output": (workload.num_sequences * workload.num_output, speed.output_tok_s),
    }[counts]
    return tokens, tokens / rate


if __name__ == "__main__":
    main()
