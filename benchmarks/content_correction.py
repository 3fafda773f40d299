"""How well faults of content are mended against a prose source: share that is certain, and certain but wrong.

    python benchmarks/content_correction.py --json
    python benchmarks/content_correction.py --each 2 --show 5     # a short look, with cases that are certain and wrong
    python benchmarks/content_correction.py --cases held --each 4     # never with --show: nobody mends what it shows

    python benchmarks/content_correction.py --cases second --each 4 --adapter DIR    # and with an adapter's ranking

Objects of made-up stories, English and Chinese, are changed in the ways in which content goes wrong; each goes through
the whole deterministic chain, as `stagemesh correct --local` does. No mesh; with `--adapter`, an engine in this process
ranks what the rules leave in doubt, and both results are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.content_cases import faults, further, templates
from benchmarks.correction_cases.case import Case, outcome
from services.corrector.chain import RepairChain
from services.corrector.content.judge import judge
from services.corrector.repair import Repair
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=25, help="cases of each kind and story (default: 25)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many cases that are certain and wrong")
    parser.add_argument(
        "--cases",
        choices=("stories", "first", "second", "open", "held"),
        default="stories",
        help="stories that were made with the rules; the first or second part of templates that were not; "
        "records written before anyone read the rules: `open` to those who mend them, and `held`, of which "
        "they look at totals only",
    )
    parser.add_argument("--adapter", type=Path, help="folder of an adapter with its calibration.json")
    parser.add_argument("--threads", type=int, default=1, help="of the engine, with --adapter (default: 1)")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()
    rules, times_ms, repaired = _by_rules(_cases(given.cases, given.each, given.seed))
    summary = rules.summary() | {
        "p50_ms": round(statistics.median(times_ms), 2),
        "max_ms": round(max(times_ms), 2),
    }
    shown = rules
    if given.adapter is not None:
        shown, costs = asyncio.run(_ranked(repaired, given.adapter, given.threads))
        summary["with_adapter"] = shown.summary() | costs
    for case, repair in shown.wrong[: given.show]:
        print(f"{case.kind}\n  {case.text}\n  {case.source}")
        print(f"  became {repair.text}\n  is {json.dumps(case.truth, ensure_ascii=False)}")
    if given.json:
        print(json.dumps(summary))
    else:
        _print(summary)


@dataclass
class Tally:
    """What became of cases, by their kind."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[tuple[Case, Repair]] = field(default_factory=list)
    """That were called certain."""

    def add(self, case: Case, repair: Repair) -> None:
        came = _outcome(case, repair)
        self.counts[case.kind][came] += 1
        if came == "wrong-certain":
            self.wrong.append((case, repair))

    def summary(self) -> dict[str, object]:
        determined = [count for kind, count in self.counts.items() if kind != "undetermined"]
        num_certain = sum(count["right-certain"] + count["wrong-certain"] for count in determined)
        clean = self.counts["clean"]
        return {
            "kinds": {kind: dict(count) for kind, count in sorted(self.counts.items())},
            "cases": sum(map(Counter.total, self.counts.values())),
            "certain_share": round(num_certain / max(1, sum(map(Counter.total, determined))), 4),
            "certain_wrong": len(self.wrong),
            "clean_unchanged": clean["right-certain"] + clean["right"] == clean.total(),
        }


def _by_rules(cases: Iterable[Case]) -> tuple[Tally, list[float], list[tuple[Case, Repair]]]:
    """Counts, times, and each case with what the rules made of it."""
    chain, tally = RepairChain(Limits(), judge), Tally()
    times_ms: list[float] = []
    repaired = []
    for case in cases:
        started_s = time.perf_counter()
        repair = chain.repair(case.text, Constraint(Kind.JSON_SCHEMA, json.dumps(case.schema)), (), case.source or "")
        times_ms.append((time.perf_counter() - started_s) * 1e3)
        tally.add(case, repair)
        repaired.append((case, repair))
    return tally, times_ms, repaired


async def _ranked(
    repaired: Sequence[tuple[Case, Repair]], adapter: Path, num_threads: int
) -> tuple[Tally, dict[str, object]]:
    """Counts, and what asking costs: passes, and time beyond the prefill of the source."""
    from benchmarks.content_cases.ranked import RankedChain, engine_with
    from stagemesh.models.store import locate

    mesh, tally = MeshConfig(), Tally()
    async with engine_with(locate(mesh, mesh.default_model), adapter, num_threads) as here:
        ranked = RankedChain(RepairChain(Limits(), judge), here, adapter)
        for case, repair in repaired:
            tally.add(case, await ranked.correct(case, repair))
        costs = here.costs
    return tally, {
        "asked": len(costs),
        "passes_p50": statistics.median(cost.passes for cost in costs) if costs else 0,
        "passes_max": max((cost.passes for cost in costs), default=0),
        "beyond_prefill_p50_ms": round(statistics.median(cost.ms for cost in costs), 1) if costs else 0.0,
    }


def _cases(source: str, num_each: int, seed: int) -> list[Case]:
    if source in ("open", "held"):
        return list(further.cases(seed, num_each, source))
    return faults.cases(num_each, seed) if source == "stories" else list(templates.cases(seed, num_each, source))


def _outcome(case: Case, repair: Repair) -> str:
    value = json.loads(repair.verdict.value) if repair.verdict.value else None
    came = outcome(case, {"valid": repair.verdict.valid, "value": value, "certain": repair.certain})
    return "wrong-certain" if not case.determined and repair.certain else came


def _print(summary: dict[str, object]) -> None:
    kinds = summary.pop("kinds")
    assert isinstance(kinds, dict)
    for kind, count in kinds.items():
        print(f"{kind:14} " + "  ".join(f"{name} {number}" for name, number in sorted(count.items())))
    ranked = summary.pop("with_adapter", None)
    print("  ".join(f"{name} {value}" for name, value in summary.items()))
    if isinstance(ranked, dict):
        print("with the adapter:")
        _print(ranked)


if __name__ == "__main__":
    main()
