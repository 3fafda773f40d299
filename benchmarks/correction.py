"""How many broken business objects are set right, and whether `certain` can be relied on.

    python benchmarks/correction.py --json            unseen objects, 100 cases of each kind and language
    python benchmarks/correction.py --quick           10 of each
    python benchmarks/correction.py --cases fresh     schemas, forms of values and damages of other kinds
    python benchmarks/correction.py --write FILE      only write the cases, as `stagemesh correct --jsonl` takes them

The cases come from a seed (`correction_cases`). They go through the chain in this process, without a model, one after
the other; the times are those of one case. Of undetermined cases the truth stands nowhere: none may be certain.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.correction_cases.case import Case, outcome
from benchmarks.correction_cases.fresh import fresh_cases
from benchmarks.correction_cases.generate import cases
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from services.corrector.chain import RepairChain
from services.corrector.worker import CONTENT
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits

SLOW = frozenset({"large"})
"""Kinds whose times are told apart: 200 kB."""


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    determined: int = 0
    right: int = 0
    certain: int = 0
    right_and_certain: int = 0
    wrong_and_certain: int = 0
    undetermined: int = 0
    undetermined_and_certain: int = 0
    clean: int = 0
    clean_unchanged: int = 0
    unstable: int = 0
    """Texts that a second correction changes again."""
    ms: list[float] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        for name in vars(self).keys() - {"outcomes", "ms"}:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.ms += other.ms


def measure(chain: RepairChain, case: Case) -> Tally:
    """One case as a tally of one."""
    constraint = Constraint(Kind.JSON_SCHEMA, json.dumps(case.schema, ensure_ascii=False))
    anchors = [Anchor(pointer, tuple(keys)) for pointer, keys in (case.anchors or {}).items()]
    started_s = time.perf_counter()
    repair = chain.repair(case.text, constraint, anchors, case.source or "")
    ms = (time.perf_counter() - started_s) * 1000
    value = json.loads(repair.verdict.value) if repair.verdict.value else None
    found = outcome(case, {"valid": repair.verdict.valid, "certain": repair.certain, "value": value})
    again = chain.repair(repair.text, constraint, anchors, case.source or "")
    is_clean = case.kind == "clean"
    return Tally(
        outcomes=Counter([found]),
        determined=int(case.determined),
        right=int(case.determined and found.startswith("right")),
        certain=int(repair.certain),
        right_and_certain=int(case.determined and found == "right-certain"),
        wrong_and_certain=int(found == "wrong-certain"),
        undetermined=int(not case.determined),
        undetermined_and_certain=int(not case.determined and repair.certain),
        clean=int(is_clean),
        clean_unchanged=int(is_clean and repair.text == case.text),
        unstable=int(again.text != repair.text),
        ms=[ms],
    )


def run(found: Iterable[Case]) -> dict[str, Tally]:
    chain = RepairChain(Limits(), CONTENT)
    tallies: dict[str, Tally] = defaultdict(Tally)
    for case in found:
        tallies[f"{case.kind} ({case.language})"].add(measure(chain, case))
    return dict(tallies)


def report(tallies: dict[str, Tally], seed: int, part: str) -> dict[str, Any]:
    """The figures of all kinds; `part`: of which cases."""
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    usual = [ms for kind, tally in tallies.items() if kind.split(" (")[0] not in SLOW for ms in tally.ms]
    return {
        "seed": seed,
        "part": part,
        "cases": sum(total.outcomes.values()),
        "right_percent": round(100 * total.right / total.determined, 2),
        "right_percent_of_certain": round(100 * total.right_and_certain / max(total.certain, 1), 2),
        "right_and_certain_percent": round(100 * total.right_and_certain / total.determined, 2),
        "wrong_and_certain": total.wrong_and_certain,
        "undetermined": total.undetermined,
        "undetermined_and_certain": total.undetermined_and_certain,
        "clean_unchanged_percent": round(100 * total.clean_unchanged / max(total.clean, 1), 2),
        "unstable": total.unstable,
        "p50_ms": round(statistics.median(usual), 3),
        "p99_ms": round(sorted(usual)[int(len(usual) * 0.99)], 3),
        "large_max_ms": round(
            max((ms for t in tallies.items() if t[0].startswith("large") for ms in t[1].ms), default=0), 1
        ),
        "kinds": {kind: _row(tally) for kind, tally in tallies.items()},
        "machine": describe_machine(),
    }


def _row(tally: Tally) -> dict[str, Any]:
    return {
        "determined": tally.determined,
        "right": tally.right,
        "certain_and_right": tally.right_and_certain,
        "certain_and_wrong": tally.wrong_and_certain,
        "undetermined": tally.undetermined,
        "undetermined_and_certain": tally.undetermined_and_certain,
        "wrong": tally.outcomes["wrong"],
        "open": tally.outcomes["open"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--quick", action="store_true", help="10 cases of each kind and language")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks; times mean little then")
    parser.add_argument(
        "--cases", choices=("usual", "fresh"), default="usual", help="fresh: other schemas, forms and damages"
    )
    parser.add_argument("--part", choices=("train", "unseen"), default="unseen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the cases as lines instead of measuring")
    arguments = parser.parse_args()
    part = "fresh" if arguments.cases == "fresh" else arguments.part
    found = (
        fresh_cases(arguments.seed) if part == "fresh" else cases(arguments.seed, part, 10 if arguments.quick else 100)
    )
    if arguments.write:
        arguments.write.write_text("".join(case.line() + "\n" for case in found), encoding="utf-8")
        return
    with no_lock() if arguments.busy else benchmark_lock():
        done = report(run(found), arguments.seed, part)
    for kind, row in done["kinds"].items():
        print(f"{kind:34}", " ".join(f"{name}={number}" for name, number in row.items() if number))
    print({key: value for key, value in done.items() if key not in ("kinds", "machine")})
    if arguments.json:
        print(json.dumps(done, ensure_ascii=False))


if __name__ == "__main__":
    main()
