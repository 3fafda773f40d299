"""A stored anchor set of a million keys: time to load, memory, and time of a lookup, exact and near.

python benchmarks/anchor_lookup.py [--keys 1000000] [--lookups 5000] [--quick] [--busy] [--json]

Keys are a seeded mixture: numbered SKUs in a row, random IDs, mail addresses, Chinese and English names. `load_s` is
from a file of keys to an index that answers, in the process that the services use. Memory is that of a fresh process
that has opened the index and answered all lookups: `memory_mb` with the pages of mapped files, which processes share,
`private_mb` without. Answers are compared with those of a scan over all keys (rapidfuzz). With `--busy` times are
processor time of the thread, and the lock is not taken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rapidfuzz import process
from rapidfuzz.distance import OSA

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from stagemesh.validation.anchor_index import AnchorIndex
from stagemesh.validation.anchor_match import Match
from stagemesh.validation.forms import form_of
from stagemesh.validation.sets.builder import build, head
from stagemesh.validation.sets.config import AnchorSetsConfig

SEED = 20_260_101
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
FAMILY, GIVEN = (
    "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许",
    "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华玉萍红建国志",
)
SYLLABLES = ("an", "ber", "co", "da", "el", "fre", "gar", "hol", "in", "ka", "lo", "mar", "nor", "os", "pe", "ru")
KINDS = ("exact", "near", "near2", "unknown")


def make_keys(count: int, rng: random.Random) -> list[str]:
    """`count` different keys, a quarter of each sort."""

    def name() -> str:
        if rng.random() < 0.5:
            return rng.choice(FAMILY) + "".join(rng.choices(GIVEN, k=2)) + f" {rng.randrange(10_000):04}"
        return " ".join("".join(rng.choices(SYLLABLES, k=3)).capitalize() for _ in range(3))

    def mail() -> str:
        return f"{''.join(rng.choices(SYLLABLES, k=3))}{rng.randrange(10_000)}@{rng.choice(SYLLABLES)}.example"

    def identifier() -> str:
        return "".join(rng.choices(LETTERS + "0123456789", k=12))

    keys = {f"SKU-{number:07}": None for number in range(count // 4)}
    for make, share in ((identifier, 2), (mail, 3), (name, 4)):
        while len(keys) < count * share // 4:
            keys[make()] = None
    return list(keys)


def edited(key: str, rng: random.Random) -> str:
    at, char = rng.randrange(len(key) - 1), rng.choice(LETTERS + "0123456789")
    return rng.choice(
        [
            key[:at] + key[at + 1 :],
            key[:at] + char + key[at:],
            key[:at] + char + key[at + 1 :],
            key[:at] + key[at + 1] + key[at] + key[at + 2 :],
        ]
    )


def values(kind: str, keys: Sequence[str], count: int, rng: random.Random) -> Iterator[str]:
    for _ in range(count):
        key = rng.choice(keys)
        match kind:
            case "exact":
                yield key
            case "near":
                yield edited(key, rng)
            case "near2":
                yield edited(edited(key, rng), rng)
            case _:
                yield "".join(rng.choices(LETTERS, k=len(key)))


def load(keys: Sequence[str], folder: Path, max_edits: int) -> tuple[Path, float]:
    """The index of the keys, and the seconds from a file of keys to it."""
    given, source, target = folder / "keys.txt", folder / "set.keys", folder / f"set-{max_edits}.idx"
    given.write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
    started_s = time.perf_counter()
    with source.open("wb") as file:
        file.write(head(ignore_case=False, max_edits=max_edits))
        for line in given.read_text(encoding="utf-8").splitlines():
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    asyncio.run(build(source, target, AnchorSetsConfig()))
    AnchorIndex.open(target).lookup("x")
    return target, time.perf_counter() - started_s


def times_us(index: AnchorIndex, asked: Sequence[str], clock_ns: Callable[[], int]) -> list[float]:
    found = []
    for value in asked:
        started = clock_ns()
        index.lookup(value)
        found.append((clock_ns() - started) / 1_000)
    return sorted(found)


def measure_here(target: Path, keys_file: Path, lookups: int, busy: bool) -> dict[str, Any]:
    """In a fresh process: times of lookups, then memory. The keys themselves are given back before that."""
    rng = random.Random(SEED + 1)
    keys = keys_file.read_text(encoding="utf-8").splitlines()
    asked = {kind: list(values(kind, keys, lookups, rng)) for kind in KINDS}
    del keys
    clock_ns = time.thread_time_ns if busy else time.perf_counter_ns
    figures: dict[str, Any] = {}
    private_before_mb, _ = memory_mb()
    one = AnchorIndex.open(target)
    for kind in ("exact", "near", "unknown"):
        times = times_us(one, asked[kind], clock_ns)
        figures |= {
            f"{kind}_p50_us": round(percentile(times, 50), 1),
            f"{kind}_p99_us": round(percentile(times, 99), 1),
        }
    private_mb, mapped_mb = memory_mb()
    figures |= {"memory_mb": round(private_mb - private_before_mb + mapped_mb, 1)}
    figures |= {"private_mb": round(max(0.0, private_mb - private_before_mb), 1)}
    one.max_edits = 2
    times = times_us(one, asked["near2"][: max(1, lookups // 10)], clock_ns)
    return {
        **figures,
        "two_edits_p50_ms": round(percentile(times, 50) / 1e3, 2),
        "two_edits_p99_ms": round(percentile(times, 99) / 1e3, 2),
    }


def memory_mb() -> tuple[float, float]:
    """Private memory of this process, and pages of mapped files, in MB; zeros where /proc does not say."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return 0.0, 0.0
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kb["Anonymous"] / 1e3, (kb["Rss"] - kb["Anonymous"]) / 1e3


def percentile(ordered: Sequence[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def compare(target: Path, keys: Sequence[str], count: int) -> dict[str, Any]:
    """Answers of the index against those of a scan over all keys, and what the scan takes."""
    rng = random.Random(SEED + 2)
    index, forms = AnchorIndex.open(target), [form_of(key) for key in keys]
    wrong, spent_ms = 0, []
    for kind in ("exact", "near", "near2", "unknown"):
        for value in values(kind, keys, count, rng):
            started_s = time.perf_counter()
            near = process.extract(form_of(value), forms, scorer=OSA.distance, score_cutoff=1, limit=None)
            spent_ms.append((time.perf_counter() - started_s) * 1e3)
            best = min((distance for _, distance, _ in near), default=None)
            same = {keys[number] for _, distance, number in near if distance == best}
            found = index.lookup(value)
            right = (
                found.match is Match.UNKNOWN
                if best is None
                else set(found.keys) <= same and len(found.keys) == min(20, len(same))
            )
            wrong += not (right or (found.match is Match.EXACT and value in same))
    return {"compared": 4 * count, "wrong": wrong, "scan_p50_ms": round(percentile(sorted(spent_ms), 50), 1)}


def run(options: argparse.Namespace) -> dict[str, Any]:
    keys = make_keys(options.keys, random.Random(SEED))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target, load_s = load(keys, folder, max_edits=1)
        command = [
            sys.executable,
            "-m",
            "benchmarks.anchor_lookup",
            "--index",
            str(target),
            "--lookups",
            str(options.lookups),
        ]
        shown = subprocess.run(
            [*command, *(["--busy"] if options.busy else [])], check=True, capture_output=True, text=True
        )
        return {
            "keys": len(keys),
            "load_s": round(load_s, 2),
            "index_mb": round(target.stat().st_size / 1e6, 1),
            **json.loads(shown.stdout),
            **compare(target, keys, options.compared),
        }


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--lookups", type=int, default=5_000)
    parser.add_argument("--compared", type=int, default=25, help="lookups of each kind that are compared with a scan")
    parser.add_argument("--quick", action="store_true", help="20,000 keys, 500 lookups")
    parser.add_argument("--busy", action="store_true", help="processor time, without the lock")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--index", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick:
        options.keys, options.lookups = 20_000, 500
    return options


def main() -> None:
    options = parse()
    if options.index is not None:
        figures = measure_here(options.index, options.index.with_name("keys.txt"), options.lookups, options.busy)
        print(json.dumps(figures))
        return
    with no_lock() if options.busy else benchmark_lock():
        figures = run(options)
    if not options.json:
        print(describe_machine())
        print("\n".join(f"{name:>18}  {value}" for name, value in figures.items()))
        return
    print(json.dumps({"machine": describe_machine(), **figures}))


if __name__ == "__main__":
    main()
