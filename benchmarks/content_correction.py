"""How well faults of content are mended against a prose source: share that is certain, and certain but wrong.

    python benchmarks/content_correction.py --json
    python benchmarks/content_correction.py --each 2 --show 5     # a short look, with cases that are certain and wrong

Objects of made-up stories, English and Chinese, are changed in the ways in which content goes wrong; each goes through
the whole deterministic chain, as `stagemesh correct --local` does. No model, no mesh.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter, defaultdict

from benchmarks.content_cases import faults, templates
from benchmarks.correction_cases.case import Case, outcome
from services.corrector.chain import RepairChain
from services.corrector.content.judge import judge
from services.corrector.repair import Repair
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=25, help="cases of each kind and story (default: 25)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many cases that are certain and wrong")
    parser.add_argument(
        "--cases",
        choices=("stories", "first", "second"),
        default="stories",
        help="stories that were made with the rules, or the first or second part of templates that were not",
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()
    chain = RepairChain(Limits(), judge)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    times_ms: list[float] = []
    wrong: list[tuple[Case, Repair]] = []
    for case in _cases(given.cases, given.each, given.seed):
        started_s = time.perf_counter()
        repair = chain.repair(case.text, Constraint(Kind.JSON_SCHEMA, json.dumps(case.schema)), (), case.source or "")
        times_ms.append((time.perf_counter() - started_s) * 1e3)
        came = _outcome(case, repair)
        counts[case.kind][came] += 1
        if came == "wrong-certain":
            wrong.append((case, repair))
    for case, repair in wrong[: given.show]:
        print(f"{case.kind}\n  {case.text}\n  {case.source}")
        print(f"  became {repair.text}\n  is {json.dumps(case.truth, ensure_ascii=False)}")
    summary = _summary(counts, times_ms)
    if given.json:
        print(json.dumps(summary))
    else:
        _print(summary)


def _cases(source: str, num_each: int, seed: int) -> list[Case]:
    return faults.cases(num_each, seed) if source == "stories" else list(templates.cases(seed, num_each, source))


def _outcome(case: Case, repair: Repair) -> str:
    value = json.loads(repair.verdict.value) if repair.verdict.value else None
    came = outcome(case, {"valid": repair.verdict.valid, "value": value, "certain": repair.certain})
    return "wrong-certain" if not case.determined and repair.certain else came


def _summary(counts: dict[str, Counter[str]], times_ms: list[float]) -> dict[str, object]:
    determined = {kind: count for kind, count in counts.items() if kind != "undetermined"}
    num_certain = sum(count["right-certain"] + count["wrong-certain"] for count in determined.values())
    num_wrong = sum(count["wrong-certain"] for count in counts.values())
    return {
        "kinds": {kind: dict(count) for kind, count in sorted(counts.items())},
        "cases": sum(sum(count.values()) for count in counts.values()),
        "certain_share": round(num_certain / max(1, sum(sum(count.values()) for count in determined.values())), 4),
        "certain_wrong": num_wrong,
        "clean_unchanged": counts["clean"]["right-certain"] + counts["clean"]["right"] == sum(counts["clean"].values()),
        "p50_ms": round(statistics.median(times_ms), 2),
        "max_ms": round(max(times_ms), 2),
    }


def _print(summary: dict[str, object]) -> None:
    kinds = summary.pop("kinds")
    assert isinstance(kinds, dict)
    for kind, count in kinds.items():
        print(f"{kind:14} " + "  ".join(f"{name} {number}" for name, number in sorted(count.items())))
    print("  ".join(f"{name} {value}" for name, value in summary.items()))


if __name__ == "__main__":
    main()
