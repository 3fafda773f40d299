"""From measurements to medians, ratios, a JSON object and a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.case import Case
from benchmarks.peers.rounds import Key, Runs

Medians = dict[str, dict[str, dict[str, float]]]
"""contender → case → number of threads → tokens a second."""


def medians(runs: Runs) -> Medians:
    found: Medians = {}
    for key, measurements in runs.measurements.items():
        value = round(statistics.median(measurement.tok_s for measurement in measurements), 2)
        found.setdefault(key.contender, {}).setdefault(key.case, {})[str(key.threads)] = value
    return found


def best_peers(figures: Medians, ours: str) -> dict[str, dict[str, str]]:
    """case → threads → the contender with the best median, `ours` left out."""
    best: dict[str, dict[str, str]] = {}
    for name, cases in figures.items():
        if name == ours:
            continue
        for case, by_threads in cases.items():
            for threads, value in by_threads.items():
                leader = best.setdefault(case, {}).get(threads)
                if leader is None or value > figures[leader][case][threads]:
                    best[case][threads] = name
    return best


def ratios(figures: Medians, ours: str) -> dict[str, dict[str, float]]:
    """case → threads → our median over the best peer's."""
    mine = figures.get(ours, {})
    return {
        case: {
            threads: round(mine[case][threads] / figures[leader][case][threads], 3)
            for threads, leader in leaders.items()
            if threads in mine.get(case, {})
        }
        for case, leaders in best_peers(figures, ours).items()
    }


def peak_rss_mb(runs: Runs) -> dict[str, dict[str, float]]:
    """contender → threads → highest of all its cases."""
    peaks: dict[str, dict[str, float]] = {}
    for key, measurements in runs.measurements.items():
        by_threads = peaks.setdefault(key.contender, {})
        highest = max(measurement.peak_rss_mb for measurement in measurements)
        by_threads[str(key.threads)] = round(max(highest, by_threads.get(str(key.threads), 0.0)), 1)
    return peaks


def as_json(runs: Runs, ours: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """The result object: `ratios`, `best_peers`, `stagemesh`, `peers`, each run, and what `about` says."""
    figures, peaks = medians(runs), peak_rss_mb(runs)
    entries = {name: {**cases, "peak_rss_mb": peaks[name]} for name, cases in figures.items()}
    return {
        **about,
        "ratios": ratios(figures, ours),
        "best_peers": best_peers(figures, ours),
        "stagemesh": entries.pop(ours, {}),
        "peers": entries,
        "errors": runs.errors,
        "runs": [_run_entry(key, runs) for key in runs.measurements],
    }


def _run_entry(key: Key, runs: Runs) -> dict[str, Any]:
    values = [round(measurement.tok_s, 2) for measurement in runs.measurements[key]]
    return {"contender": key.contender, "case": key.case, "threads": key.threads, "tok_s": values}


def table(result: Mapping[str, Any], cases: Sequence[Case], ours: str) -> str:
    """Markdown: a row for each contender, tokens a second, a table for each number of threads."""
    entries = {ours: result["stagemesh"], **result["peers"]}
    parts = []
    for threads in map(str, result["threads"]):
        head = [
            f"{threads} thread{'s' if threads != '1' else ''}, tok/s",
            *(case.name for case in cases),
            "peak RSS, MB",
        ]
        rows = [
            [name, *(_cell(entry.get(case.name, {}).get(threads)) for case in cases), _cell(_peak(entry, threads))]
            for name, entry in entries.items()
        ]
        rows.append(
            [
                "ratio to the best peer",
                *(_ratio(result["ratios"].get(case.name, {}).get(threads)) for case in cases),
                "",
            ]
        )
        parts.append("\n".join(_line(cells) for cells in (head, ["---"] * len(head), *rows)))
    parts.extend(f"{name} did not run: {error}" for name, error in result["errors"].items())
    return "\n\n".join(parts)


def _peak(entry: Mapping[str, Any], threads: str) -> float | None:
    peak: float | None = entry.get("peak_rss_mb", {}).get(threads)
    return peak


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
