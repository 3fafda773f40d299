"""What storing and loading pages take of the step loop's time; the threads that do the work are left out.

python benchmarks/kv_step_cost.py [--tokens 2000,8000] [--runs 50] [--busy] [--json]

For a prompt of that many tokens, whose names were computed when the request was checked, in milliseconds (median):

- look: find that nothing is stored of it, anywhere
- hand over: reserve its pages and ask the loader for them
- take back: make known what was loaded
- save: hold its pages and ask the saver to copy them
- let go: give them back when they have been copied
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from services.engine.block_manager import PAGE_SIZE, BlockManager
from services.engine.kv.counters import Counters
from services.engine.kv.host_tier import HostTier
from services.engine.kv.jobs import LoadJob, SaveJob
from services.engine.kv.load_cost import LoadCost
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_source import PageSource
from services.engine.kv.restores import Restores
from services.engine.kv.saves import Saves
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.page_table import Owner
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence as EngineSequence
from stagemesh.api.common.v1.common_pb2 import KvLease

PAGE_BYTES = 369_024
"""Of the default model, in bfloat16."""
STEPS = ("look", "hand over", "take back", "save", "let go")


class Jobs(PageSource):
    """Takes jobs and does nothing; a KV Redis that can be asked."""

    def __init__(self) -> None:
        super().__init__(HostTier(1 << 30), None, Counters())
        self.source = self
        self.cost = LoadCost(PAGE_BYTES)
        self.loads: list[LoadJob] = []
        self.saves: list[SaveJob] = []

    def load(self, job: LoadJob) -> None:
        self.loads.append(job)

    def save(self, job: SaveJob) -> None:
        self.saves.append(job)

    def take_back(self) -> list[SaveJob]:
        return []

    def obstacle(self) -> MissCause | None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="2000,8000")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--busy", action="store_true", help="do not wait for a quiet machine")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.tokens.split(",")]
    with no_lock() if arguments.busy else benchmark_lock():
        result = {size: measure(size, arguments.runs) for size in sizes}
    if arguments.json:
        print(json.dumps({"machine": describe_machine(), "milliseconds": result}))
        return
    print(describe_machine())
    print(f"{'tokens':>7}", *(f"{step:>10}" for step in STEPS))
    for size, times in result.items():
        print(f"{size:>7}", *(f"{times[step]:>10.3f}" for step in STEPS))


def measure(num_tokens: int, runs: int) -> dict[str, float]:
    """Milliseconds by step, the median of `runs`."""
    found = [measure_once(num_tokens) for _ in range(runs)]
    return {step: statistics.median(times[step] for times in found) for step in STEPS}


def measure_once(num_tokens: int) -> dict[str, float]:
    blocks, jobs = BlockManager(2 * num_tokens // PAGE_SIZE), Jobs()
    restores = Restores(blocks, jobs, Counters(), lambda: 0.0, max_load_s=1.0, always_load=False)
    saves = Saves(
        blocks, jobs, jobs, Counters(), page_bytes=PAGE_BYTES, queue_bytes=PAGE_BYTES * num_tokens, has_store=True
    )
    new, stored = sequence_of(num_tokens, 0), sequence_of(num_tokens, num_tokens)
    blocks.allocate(new.table, new.tokens)
    times = {"look": timed(lambda: restores.begin(new))}
    blocks.release(new.table)

    blocks.allocate(stored.table, stored.tokens)
    times["hand over"] = timed(lambda: restores.begin(stored))
    (job,) = jobs.loads
    job.prepare()
    job.num_store = len(job.pages)
    times["take back"] = timed(lambda: restores.ended(job))

    stored.kv.num_stored = 0
    times["save"] = timed(lambda: saves.save(stored))
    times["let go"] = max(timed(lambda job=job: saves.copied(job)) for job in jobs.saves)  # type: ignore[misc]
    return times


def sequence_of(num_tokens: int, stored_tokens: int) -> EngineSequence:
    """A sequence under a lease, whose pages have been named."""
    tokens: Sequence[int] = list(range(num_tokens))
    sequence = EngineSequence(
        sequence_id="bench",
        owner=Owner("bench", b"salt", "q8_0"),
        tokens=list(tokens),
        num_prompt=num_tokens,
        num_delivered=0,
        params=SamplingParams(temperature=0.0),
        max_total_tokens=num_tokens + 8,
        kv=SequenceKv(KvLease(lease_id="l", namespace=b"ns", stored_tokens=stored_tokens, ttl_s=60)),
    )
    sequence.table.digests(tokens, (num_tokens - 1) // PAGE_SIZE)
    return sequence


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    started_s = time.perf_counter()
    work()
    return (time.perf_counter() - started_s) * 1000


if __name__ == "__main__":
    main()
