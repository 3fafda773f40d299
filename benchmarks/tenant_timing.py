"""Whether one tenant can tell by its clock what another one has asked.

python benchmarks/tenant_timing.py [--rounds 500] [--tokens 128] [--keep FILE] [--busy] [--json]

In each round a victim asks something, which is then warm for the victim. A prober asks the very same, and something of
the same length that nobody has asked, in random order, each once. `difference_percent` is the median over rounds of how
much longer the former took to its first token, with the interval in which it lies with 95 %. `equal`: the whole
interval is within 2 %, and nothing was reused, so that over so many probes nothing is to be told. `control` is the
victim's own second asking by its first, which shows that the measure sees warmth.

`--keep` adds the rounds to a file and reports all that it holds: 500 rounds (1,000 probes) can be had in pieces, e.g.
four times `--rounds 125 --keep rounds.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.cache_warmth import PATIENT, Prompts
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.median_interval import median_interval
from benchmarks.own_mesh import OwnMesh, ask

SEED = 7
CONTROL_EVERY = 10
TOLERANCE = 0.02


@dataclass(frozen=True)
class Round:
    """Times to the first token, in ms."""

    asked_by_other: float
    asked_by_nobody: float
    first: float
    """The victim's own."""
    again: float | None
    cached_of_other: int
    """Tokens of the prompt that were not computed, of what the victim had asked."""
    cached_of_nobody: int
    """The prober's own: the page with which the chat template begins every prompt."""


def measure(mesh: OwnMesh, rounds: int, num_tokens: int, seed: int) -> Iterator[Round]:
    victim, prober = mesh.new_tenant("victim"), mesh.new_tenant("prober")
    prompts, order = Prompts(), random.Random(seed)
    with mesh.gateway() as stub:
        # What the chat template begins every prompt with is each tenant's own, and computed with its first one.
        for key in (victim, prober):
            ask(stub, prompts.text(num_tokens), num_output=1, key=key)
        for number in range(rounds):
            text = prompts.text(num_tokens)
            first = ask(stub, text, num_output=1, key=victim).ttft_ms
            probes = [(True, text), (False, prompts.text(num_tokens))]
            order.shuffle(probes)
            answers = {is_known: ask(stub, probe, num_output=1, key=prober) for is_known, probe in probes}
            again = ask(stub, text, num_output=1, key=victim).ttft_ms if number % CONTROL_EVERY == 0 else None
            known, unknown = answers[True], answers[False]
            cached = known.usage.cached_tokens, unknown.usage.cached_tokens
            yield Round(known.ttft_ms, unknown.ttft_ms, first, again, *cached)
            if sys.stderr.isatty():
                print(f"{number + 1} of {rounds}", end="\r", file=sys.stderr)


def report_of(rounds: Sequence[Round]) -> dict[str, object]:
    found = median_interval([one.asked_by_other / one.asked_by_nobody for one in rounds])
    percent = found.shifted()
    reused = max(0, max(one.cached_of_other for one in rounds) - max(one.cached_of_nobody for one in rounds))
    return {
        "probes": 2 * len(rounds),
        "asked_by_other_ms": round(statistics.median(one.asked_by_other for one in rounds), 2),
        "asked_by_nobody_ms": round(statistics.median(one.asked_by_nobody for one in rounds), 2),
        "difference_percent": percent["median"],
        "interval_percent": [percent["low"], percent["high"]],
        "control": round(statistics.median(one.again / one.first for one in rounds if one.again is not None), 4),
        "more_cached_tokens": reused,
        "equal": found.is_within(1 - TOLERANCE, 1 + TOLERANCE) and reused == 0,
    }


def kept_rounds(path: Path) -> list[Round]:
    return [Round(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=128, help="length of a prompt")
    parser.add_argument("--keep", type=Path, help="add the rounds to this file, and report all in it")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    with no_lock() if given.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        mesh = OwnMesh(Path(folder) / "mesh")
        mesh.up(PATIENT)
        try:
            before = kept_rounds(given.keep) if given.keep else []
            rounds = list(measure(mesh, given.rounds, given.tokens, SEED + len(before)))
        finally:
            mesh.down()
    if given.keep:
        with given.keep.open("a") as file:
            file.writelines(json.dumps(asdict(one)) + "\n" for one in rounds)
    found = report_of([*before, *rounds])
    if given.json:
        print(json.dumps({"machine": describe_machine(), **found}))
        return
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
