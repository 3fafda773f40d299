"""Whether one tenant can tell by its clock what another one has asked.

python benchmarks/tenant_timing.py [--rounds 500] [--tokens 128] [--busy] [--json]

In each round a victim asks something, which is then warm for the victim. A prober asks the very same, and something of
the same length that nobody has asked, in random order, each once. `ratio` is the median time to the first token of the
former by that of the latter: 1 within 2 % over 500 rounds (1,000 probes) means that nothing is to be told. `control` is
the victim's own second asking by its first, which shows that the measure sees warmth.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.cache_warmth import PATIENT, Prompts
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.own_mesh import OwnMesh, ask

SEED = 7
CONTROL_EVERY = 10
TOLERANCE = 0.02


def measure(mesh: OwnMesh, rounds: int, num_tokens: int) -> dict[str, float | bool]:
    victim, prober = mesh.new_tenant("victim"), mesh.new_tenant("prober")
    prompts, order = Prompts(), random.Random(SEED)
    asked: dict[bool, list[float]] = {True: [], False: []}
    first, again = list[float](), list[float]()
    reused = 0
    with mesh.gateway() as stub:
        for number in range(rounds):
            text = prompts.text(num_tokens)
            first.append(ask(stub, text, num_output=1, key=victim).ttft_ms)
            probes = [(True, text), (False, prompts.text(num_tokens))]
            order.shuffle(probes)
            answers = {is_known: ask(stub, probe, num_output=1, key=prober) for is_known, probe in probes}
            for is_known, answer in answers.items():
                asked[is_known].append(answer.ttft_ms)
            reused = max(reused, answers[True].usage.cached_tokens - answers[False].usage.cached_tokens)
            if number % CONTROL_EVERY == 0:
                again.append(ask(stub, text, num_output=1, key=victim).ttft_ms)
            if sys.stderr.isatty():
                print(f"{number + 1} of {rounds}", end="\r", file=sys.stderr)
    ratio = statistics.median(asked[True]) / statistics.median(asked[False])
    return {
        "probes": 2 * rounds,
        "asked_by_other_ms": round(statistics.median(asked[True]), 2),
        "asked_by_nobody_ms": round(statistics.median(asked[False]), 2),
        "ratio": round(ratio, 4),
        "control": round(statistics.median(again) / statistics.median(first), 4),
        "more_cached_tokens": reused,
        "equal": abs(ratio - 1) <= TOLERANCE and reused == 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=128, help="length of a prompt")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    with no_lock() if given.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        mesh = OwnMesh(Path(folder) / "mesh")
        mesh.up(PATIENT)
        try:
            found = measure(mesh, given.rounds, given.tokens)
        finally:
            mesh.down()
    if given.json:
        print(json.dumps({"machine": describe_machine(), **found}))
        return
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
