"""Decode speed of the engine core in process: one stream, and 16 at once, on the default model.

OMP_WAIT_POLICY=PASSIVE python benchmarks/engine_decode.py [--threads 2] [--backend native] [--dtype float32]
    [--repeats 3] [--json]

(The service sets the wait policy itself, before torch is imported.)
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

from services.engine.block_manager import Owner
from services.engine.config import EngineConfig
from services.engine.core import CoreLimits, EngineCore
from services.engine.engine import load_model
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def run(core: EngineCore, *, num_sequences: int, num_prompt: int, num_output: int) -> dict[str, float]:
    """Prompt tokens a second until all are computed, output tokens a second after that and overall.

    `…_cpu_ms` is processor time a token: with one thread it can be compared on a machine that others use as well.
    """
    for number in range(num_sequences):
        prompt = [(number * 7919 + at * 31) % 40_000 + 100 for at in range(num_prompt)]
        core.add(
            Sequence(
                sequence_id=str(number),
                owner=Owner("bench", b""),
                tokens=prompt,
                num_prompt=num_prompt,
                num_delivered=0,
                params=SamplingParams(temperature=0.0, ignore_eos=True),
                max_total_tokens=num_prompt + num_output,
            )
        )
    started_s, tokens, prefilled_s, prefill_tokens = time.perf_counter(), 0, 0.0, 0
    started_cpu_s = prefilled_cpu_s = time.process_time()
    answered: set[str] = set()
    while core.has_work():
        for update in core.step().updates:
            tokens += len(update.tokens)
            if update.tokens:
                answered.add(update.sequence_id)
        if not prefilled_s and len(answered) == num_sequences:
            prefilled_s, prefill_tokens = time.perf_counter(), tokens
            prefilled_cpu_s = time.process_time()
    ended_s, ended_cpu_s = time.perf_counter(), time.process_time()
    num_prompts = num_sequences * num_prompt
    return {
        "prefill_tok_s": num_prompts / (prefilled_s - started_s),
        "prefill_cpu_ms": 1e3 * (prefilled_cpu_s - started_cpu_s) / num_prompts,
        "decode_tok_s": (tokens - prefill_tokens) / (ended_s - prefilled_s),
        "decode_cpu_ms": 1e3 * (ended_cpu_s - prefilled_cpu_s) / (tokens - prefill_tokens),
        "output_tok_s": tokens / (ended_s - started_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backend", default="torch", choices=["torch", "native"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = pull(read_source(environ={}).shared(MeshConfig))
    config = EngineConfig(threads=args.threads, dtype=args.dtype, backend=args.backend)
    model = load_model(files, config)
    vocabulary = Vocabulary(model.tokenizer.all_token_bytes, frozenset(), frozenset())
    limits = CoreLimits(
        num_pages=model.num_pages, max_running=32, prefill_chunk_size=512, max_step_ms=0, stage_sample_interval=16
    )
    core = EngineCore(model.runner, vocabulary, limits)
    cases = {
        "single": (1, 128, 64),
        "batch16": (16, 128, 128),
        "prefill_512": (1, 512, 2),
        "prefill_2048": (1, 2048, 2),
    }
    run(core, num_sequences=1, num_prompt=16, num_output=4)
    results: dict[str, object] = {"processor": processor(), "threads": args.threads, "backend": model.backend}
    if args.backend == "torch":
        results["dtype"] = args.dtype
    for name, (num_sequences, num_prompt, num_output) in cases.items():
        runs = [
            run(core, num_sequences=num_sequences, num_prompt=num_prompt, num_output=num_output)
            for _ in range(args.repeats)
        ]
        results[name] = {key: round(statistics.median(entry[key] for entry in runs), 2) for key in runs[0]}
    print(json.dumps(results) if args.json else json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
