"""What healing costs a step that goes well: the same steps with and without its hooks, in alternating turns.

python benchmarks/guard_cost.py [--turns 40] [--steps 50] [--quick] [--busy] [--json]

Two cores on one model in memory decode the same four sequences. One calls the healer around each step as the engine
does (the look at the clock, the watch for faults on purpose, the watchdog's thread), the other calls the model alone.
`overhead_percent` is the median over turns of how much longer the first took, by the time of a step of the second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from services.engine.backend import load_backend
from services.engine.block_manager import num_pages_for
from services.engine.config import EngineConfig
from services.engine.core import CoreLimits, EngineCore
from services.engine.ending import Ending
from services.engine.healing.healer import Healer, make_healer
from services.engine.page_table import Owner
from services.engine.runner import Runner, Sizes
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence as EngineSequence
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import locate
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.mesh_config import MeshConfig

ABORTED = Ending(common_pb2.FINISH_REASON_ABORT)
NUM_SEQUENCES = 4
PROMPT_TOKENS = 32
MAX_TOKENS = 4_000


class Bare(Healer):
    """Nothing around the model's own run."""

    @contextmanager
    def watching(self, items: Sequence[WorkItem]) -> Iterator[None]:
        yield


def loaded(config: EngineConfig) -> tuple[Runner, Vocabulary, int]:
    files = locate(MeshConfig(), "")
    model, tokenizer = load_model_config(files), load_tokenizer(files)
    num_pages = num_pages_for(config.kv_pool_tokens)
    sizes = Sizes(context_length=model.context_length, num_pages=num_pages, num_threads=1)
    ends = frozenset(model.eos_token_ids)
    vocabulary = Vocabulary(tokenizer.all_token_bytes, tokenizer.special_ids, ends)
    return load_backend(files, model, config, sizes).runner, vocabulary, num_pages


def core_with(healer: Healer, runner: Runner, vocabulary: Vocabulary, num_pages: int) -> EngineCore:
    """Its sequences decode without end; their pages come from a part of the pool of their own."""
    limits = CoreLimits(
        num_pages=num_pages, max_running=NUM_SEQUENCES, prefill_chunk_size=512, stage_sample_interval=1_000_000
    )
    return EngineCore(runner, vocabulary, limits, healer=healer)


def begin(core: EngineCore) -> None:
    """New sequences, each past its prompt."""
    for number in range(NUM_SEQUENCES):
        tokens = [5 + number, *range(100, 99 + PROMPT_TOKENS)]
        core.add(
            EngineSequence(
                sequence_id=str(number),
                owner=Owner("t", b""),
                tokens=tokens,
                num_prompt=len(tokens),
                num_delivered=0,
                params=SamplingParams(temperature=0.0, ignore_eos=True),
                max_total_tokens=len(tokens) + MAX_TOKENS,
            )
        )
    for _ in range(3):
        core.step()


def seconds_of(core: EngineCore, num_steps: int) -> float:
    started_s = time.perf_counter()
    for _ in range(num_steps):
        core.step()
    return (time.perf_counter() - started_s) / num_steps


def measure(turns: int, num_steps: int) -> dict[str, float]:
    config = EngineConfig(kv_pool_tokens=65_536)
    runner, vocabulary, num_pages = loaded(config)
    guarded = core_with(make_healer(config.healing, runner), runner, vocabulary, num_pages)
    bare = core_with(Bare(runner), runner, vocabulary, num_pages)
    guarded.healer.watchdog.start()
    try:
        pairs = [turn(guarded, bare, num_steps, first_guarded=bool(number % 2)) for number in range(turns)]
    finally:
        guarded.healer.watchdog.stop()
    overheads = [100 * (with_s - without_s) / without_s for with_s, without_s in pairs]
    return {
        "step_ms": round(1e3 * statistics.median(without_s for _, without_s in pairs), 3),
        "overhead_percent": round(statistics.median(overheads), 3),
        "hooks_us": round(1e6 * hooks_s(guarded), 2),
    }


def turn(guarded: EngineCore, bare: EngineCore, num_steps: int, *, first_guarded: bool) -> tuple[float, float]:
    """Seconds of a step with and without; both cores write the same pages, so each begins anew."""
    found: dict[bool, float] = {}
    for is_guarded in (first_guarded, not first_guarded):
        core = guarded if is_guarded else bare
        begin(core)
        found[is_guarded] = seconds_of(core, num_steps)
        for sequence in core.sequences():
            core.end(sequence.sequence_id, ABORTED)
        core.step()
    return found[True], found[False]


def hooks_s(core: EngineCore, count: int = 20_000) -> float:
    """What the hooks alone take around a step of four rows."""
    begin(core)
    items = [WorkItem.last(sequence) for sequence in core.sequences()]
    started_s = time.perf_counter()
    for _ in range(count):
        with core.healer.watching(items):
            pass
    seconds = (time.perf_counter() - started_s) / count
    for sequence in core.sequences():
        core.end(sequence.sequence_id, ABORTED)
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--steps", type=int, default=50, help="of each turn")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true", help="without the lock, beside other work")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args(arguments)
    if options.quick:
        options.turns, options.steps = 6, 10
    with no_lock() if options.busy else benchmark_lock():
        found = measure(options.turns, options.steps)
    found["hooks_percent"] = round(100 * found["hooks_us"] / 1e3 / found["step_ms"], 3)
    print(json.dumps({**found, "machine": describe_machine()}, indent=None if options.json else 1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
