"""Speed of the engine core in process: one stream, 16 at once, long prompts, on the default model.

OMP_WAIT_POLICY=PASSIVE python benchmarks/engine_decode.py [--threads 2] [--backend torch] [--dtype float32]
    [--repeats 3] [--json]

(The service sets the wait policy itself, before torch is imported.) `stagemesh bench engine` is the same for users.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from dataclasses import asdict
from pathlib import Path

from services.engine.config import EngineConfig
from services.engine.engine import load_model
from services.engine.measure import BATCH_16, PREFILL_512, PREFILL_2048, Workload, bench_core, run_workload
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

WORKLOADS = {
    "single": Workload(num_prompt=128, num_output=64),
    "batch16": BATCH_16,
    "prefill_512": PREFILL_512,
    "prefill_2048": PREFILL_2048,
}


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backend", default="auto", choices=["auto", "native", "torch"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=sorted(WORKLOADS), help="one workload instead of all")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = pull(read_source(environ={}).shared(MeshConfig))
    model = load_model(files, EngineConfig(threads=args.threads, dtype=args.dtype, backend=args.backend))
    core = bench_core(model)
    results: dict[str, object] = {"processor": processor(), "threads": args.threads, "backend": model.backend}
    if model.backend.startswith("torch"):
        results["dtype"] = args.dtype
    for name, workload in WORKLOADS.items():
        if args.only in (None, name):
            runs = [asdict(run_workload(core, workload)) for _ in range(args.repeats)]
            results[name] = {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}
    print(json.dumps(results) if args.json else json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
