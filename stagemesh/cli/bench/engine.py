"""`stagemesh bench engine`: the engine core in this process, without gRPC."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.engine.config import EngineConfig
from services.engine.core import EngineCore
from services.engine.engine import LoadedModel, load_model
from services.engine.measure import (
    BATCH_16,
    BATCH_64,
    DECODE,
    PREFILL_512,
    PREFILL_2048,
    Workload,
    bench_core,
    run_workload,
)
from services.engine.native_runner import NativeRunner
from services.engine.threads import num_physical_cores
from stagemesh.models.pull import pull
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

READ_PASSES = 20
"""For each repeat; one takes milliseconds."""
QUICK_TOKENS = 16
"""Prompt and output tokens of a request at most, when it must be quick."""

OnProgress = Callable[[str], None]

CASES: tuple[tuple[str, str, Workload, str], ...] = (
    ("decode_tok_s", "a single stream", DECODE, "decode_tok_s"),
    ("prefill_512_tok_s", "a prompt of 512 tokens", PREFILL_512, "prefill_tok_s"),
    ("prefill_2048_tok_s", "a prompt of 2,048 tokens", PREFILL_2048, "prefill_tok_s"),
    ("batch16_output_tok_s", "16 requests of 128 + 128 tokens", BATCH_16, "output_tok_s"),
    ("batch64_output_tok_s", "64 requests of 128 + 128 tokens", BATCH_64, "output_tok_s"),
)
"""Figure, what is shown meanwhile, workload, field of `Speed`."""


@dataclass(frozen=True, kw_only=True)
class EngineBenchOptions:
    config: Path | None = None
    model: str = ""
    """Empty for the configured one."""
    threads: int | None = None
    """None for the configured number."""
    backend: str | None = None
    """None for the configured one."""
    repeats: int = 3
    """Runs of each workload; the median counts."""
    quick: bool = False
    """Few tokens and one run, for a look and for CI: the figures mean little."""


def measure_engine(options: EngineBenchOptions, on_progress: OnProgress) -> dict[str, Any]:
    """The object that `--json` prints. Raises ConfigError with a sentence."""
    config = engine_config(options)
    on_progress("loading the model")
    model = load_model(files_of(options, config), config)
    core = bench_core(model)
    figures = {name: _median(core, options, case, on_progress) for name, *case in CASES}
    return {
        "model": model.identity.model,
        "backend": model.backend,
        "threads": config.threads,
        "repeats": 1 if options.quick else options.repeats,
        "quick": options.quick,
        **figures,
        "read_rate_fraction": _read_rate_fraction(model, figures["decode_tok_s"], options.repeats),
        "peak_rss_mb": peak_rss_mb(),
    }


def files_of(options: EngineBenchOptions, config: EngineConfig) -> ModelFiles:
    """The model's files, pulled if need be. Raises ConfigError."""
    return pull(read_source(options.config).shared(MeshConfig), options.model or config.model)


def peak_rss_mb() -> float:
    """Most memory that this process has held, in millions of bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6, 1)


def engine_config(options: EngineBenchOptions) -> EngineConfig:
    """The engine's section with the options in it, the number of threads settled, and the default mode alone.

    Raises ConfigError.
    """
    config = read_source(options.config).section("engine", EngineConfig)
    threads = options.threads or (num_physical_cores() if config.threads == "auto" else config.threads)
    mode = config.default_mode or config.modes[0]
    chosen = {"threads": threads, "backend": options.backend or config.backend, "modes": (mode,), "default_mode": mode}
    return config.model_copy(update=chosen)


def _median(core: EngineCore, options: EngineBenchOptions, case: list[Any], on_progress: OnProgress) -> float:
    title, workload, figure = case
    repeats = options.repeats
    if options.quick:
        repeats = 1
        prompt, output = min(workload.num_prompt, QUICK_TOKENS), min(workload.num_output, QUICK_TOKENS)
        workload = replace(workload, num_prompt=prompt, num_output=output)
    speeds: list[float] = []
    for number in range(1, repeats + 1):
        on_progress(f"{title}, {number} of {repeats}")
        speeds.append(getattr(run_workload(core, workload), figure))
    return round(statistics.median(speeds), 2)


def _read_rate_fraction(model: LoadedModel, decode_tok_s: float, repeats: int) -> float | None:
    """How near decoding is to reading the packed weights once a token; None where the backend has no such pass."""
    runner = model.runner
    if not isinstance(runner, NativeRunner):
        return None
    read_s = [_timed(runner.read_pass) for _ in range(READ_PASSES * repeats)]
    return round(statistics.median(read_s) * decode_tok_s, 3)


def _timed(work: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s
