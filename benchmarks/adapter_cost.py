"""What adapters cost: requests without one while some are loaded, with one, and with several in a batch; and scores.

OMP_WAIT_POLICY=PASSIVE python benchmarks/adapter_cost.py [--threads 2] [--rank 16] [--repeats 5] [--json] [--quick]
    [--busy]

Each case runs in turn with the same requests without an adapter, so that what else the machine does falls on both.
`ratio` is time by time without (1.05: five percent slower), `cpu_ratio` the same of the processor's time, medians over
the pairs. Adapters are random, of all seven operations of all layers. `score` is one call for 32 continuations of 4
tokens after a prompt of 300 that is known, by the number of their tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence as Seq
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.lock import benchmark_lock
from benchmarks.machine import describe_machine
from services.engine.adapter import LoadedAdapter
from services.engine.config import EngineConfig
from services.engine.core import EngineCore
from services.engine.engine import LoadedModel, load_model
from services.engine.kernels.native.lora import LORA_TARGETS, LoraPart, target_shape
from services.engine.measure import bench_core, prompt_tokens
from services.engine.page_table import Owner
from services.engine.request import ComputedBy
from services.engine.sampling_params import SamplingParams
from services.engine.score_request import scored_sequences
from services.engine.sequence import Sequence
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig


@dataclass(frozen=True, kw_only=True)
class Case:
    """Equal requests at once; request i has adapter i modulo `num_adapters`, none where that is 0."""

    name: str
    num_sequences: int
    num_prompt: int
    num_output: int
    num_adapters: int


CASES = (
    Case(name="decode_loaded_unused", num_sequences=1, num_prompt=16, num_output=64, num_adapters=0),
    Case(name="decode_one", num_sequences=1, num_prompt=16, num_output=64, num_adapters=1),
    Case(name="batch16_loaded_unused", num_sequences=16, num_prompt=32, num_output=32, num_adapters=0),
    Case(name="batch16_one", num_sequences=16, num_prompt=32, num_output=32, num_adapters=1),
    Case(name="batch16_eight", num_sequences=16, num_prompt=32, num_output=32, num_adapters=8),
    Case(name="prefill512_one", num_sequences=1, num_prompt=512, num_output=1, num_adapters=1),
)


@dataclass(frozen=True)
class Taken:
    wall_s: float
    cpu_s: float


def parse(arguments: Seq[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few tokens, one repeat")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def random_adapter(model: TransformerConfig, rank: int, seed: int) -> list[LoraPart]:
    """All operations of all layers, weak enough that the model still says something."""
    generator = np.random.default_rng(seed)
    parts = []
    for layer in range(model.num_layers):
        for target in LORA_TARGETS:
            rows, cols = target_shape(target, model)
            a, b = (generator.standard_normal(size, np.float32) for size in ((rank, cols), (rows, rank)))
            parts.append(LoraPart(layer=layer, target=target, a=a, b=b, scale=0.01 / rank / cols**0.5))
    return parts


def loaded(model: LoadedModel, rank: int, num_adapters: int) -> list[LoadedAdapter]:
    assert model.adapter_slots is not None, "adapters need the native kernels"
    adapters = []
    for slot in range(num_adapters):
        model.adapter_slots.set_adapter(slot, random_adapter(model.config, rank, slot))
        adapters.append(
            LoadedAdapter(
                name=f"random-{slot}",
                generation=1,
                revision=str(slot),
                path="",
                rank=rank,
                targets=(),
                num_bytes=0,
                loaded_unix_s=time.time(),
                slot=slot,
            )
        )
    return adapters


def run_case(core: EngineCore, case: Case, adapters: Seq[LoadedAdapter]) -> Taken:
    """Raises the StagemeshError that ended a sequence."""
    for number in range(case.num_sequences):
        core.add(
            Sequence(
                sequence_id=str(number),
                owner=Owner("bench", b""),  # without a salt nothing is reused
                tokens=prompt_tokens(number, case.num_prompt),
                num_prompt=case.num_prompt,
                num_delivered=0,
                params=SamplingParams(temperature=0.0, ignore_eos=True),
                max_total_tokens=case.num_prompt + case.num_output,
                adapter=adapters[number % case.num_adapters] if case.num_adapters else None,
            )
        )
    return _taken(core)


def run_score(core: EngineCore, number: int, num_continuations: int) -> Taken:
    """One call: its trunk's prompt is known from the last one, all its branches are computed."""
    continuations = [prompt_tokens(7 + each, 4) for each in range(num_continuations)]
    listed = [engine_pb2.Continuation(token_ids=tokens) for tokens in continuations]
    request = engine_pb2.ScoreRequest(
        tenant_id="bench", token_ids=prompt_tokens(1, 300), continuations=listed, cache_salt=b"salt"
    )
    core.add(scored_sequences(request, ComputedBy(), f"score-{number}", float("inf")).trunk)
    return _taken(core)


def _taken(core: EngineCore) -> Taken:
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    while core.has_work():
        for update in core.step().updates:
            if update.finished is not None and update.finished.ending.error is not None:
                raise update.finished.ending.error
    return Taken(time.perf_counter() - started_s, time.process_time() - started_cpu_s)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """The object that `--json` prints."""
    with nullcontext() if args.busy else benchmark_lock():
        files = pull(read_source(environ={}).shared(MeshConfig))
        model = load_model(files, EngineConfig(threads=args.threads, backend="native"))
        core = bench_core(model)
        repeats = 1 if args.quick else args.repeats
        cases = [_short(case) if args.quick else case for case in CASES]
        before = {case.name: [run_case(core, _without(case), ()) for _ in range(repeats)] for case in cases}
        adapters = loaded(model, args.rank, max(case.num_adapters for case in cases))
        figures = {case.name: _figures(core, case, adapters, repeats, before[case.name]) for case in cases}
        return {
            "machine": describe_machine(),
            "threads": args.threads,
            "rank": args.rank,
            "quick": args.quick,
            "cases": figures,
            "score": _score_figures(core, repeats, 4 if args.quick else 32),
        }


def _short(case: Case) -> Case:
    return replace(case, num_prompt=16, num_output=4, num_adapters=min(case.num_adapters, 2))


def _without(case: Case) -> Case:
    return replace(case, num_adapters=0)


def _figures(
    core: EngineCore, case: Case, adapters: Seq[LoadedAdapter], repeats: int, before: Seq[Taken]
) -> dict[str, float]:
    """The case by the same requests without an adapter; where it has none itself, by those before any was loaded."""
    pairs = []
    for number in range(repeats):
        plain = run_case(core, _without(case), adapters) if case.num_adapters else before[number]
        pairs.append((plain, run_case(core, case, adapters)))
    num_tokens = case.num_sequences * (case.num_output if case.num_output > 1 else case.num_prompt)
    return {
        "ratio": round(statistics.median(own.wall_s / plain.wall_s for plain, own in pairs), 3),
        "cpu_ratio": round(statistics.median(own.cpu_s / plain.cpu_s for plain, own in pairs), 3),
        "cpu_ms_per_token": round(1e3 * statistics.median(own.cpu_s for _, own in pairs) / num_tokens, 3),
        "plain_cpu_ms_per_token": round(1e3 * statistics.median(plain.cpu_s for plain, _ in pairs) / num_tokens, 3),
    }


def _score_figures(core: EngineCore, repeats: int, num_continuations: int) -> dict[str, float]:
    run_score(core, 0, num_continuations)
    taken = [run_score(core, number, num_continuations) for number in range(1, repeats + 1)]
    num_tokens = 4 * num_continuations
    return {
        "tokens": num_tokens,
        "ms": round(1e3 * statistics.median(each.wall_s for each in taken), 1),
        "cpu_ms_per_token": round(1e3 * statistics.median(each.cpu_s for each in taken) / num_tokens, 3),
    }


def main() -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    args = parse()
    figures = run(args)
    print(json.dumps(figures) if args.json else json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
