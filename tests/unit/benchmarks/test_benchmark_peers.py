"""benchmarks/engine_vs_peers.py without any peer: rounds, medians, ratios, table, figure, command line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.draw_peers import draw
from benchmarks.lock import ROOT
from benchmarks.machine import machine_slug, vector_level
from benchmarks.peers.case import CASES, QUICK_CASES, Case, Measurement
from benchmarks.peers.checkpoint import split_pairs
from benchmarks.peers.contender import PeerError
from benchmarks.peers.report import as_json, table
from benchmarks.peers.rounds import Rounds, Runs

DECODE = Case(name="decode", num_requests=1, num_prompt=4, num_output=4, counts="decode")
BATCH = Case(
    name="batch16", num_requests=16, num_prompt=4, num_output=4, counts="output", rivals=("broken", "fast", "slow")
)


@dataclass(kw_only=True)
class FakeEngine:
    name: str
    family: str
    speeds: list[float] = field(default_factory=list)
    """Tokens a second, run by run; the last one stays."""
    order: list[str] = field(default_factory=list)

    def install(self) -> None: ...

    def versions(self) -> dict[str, str]:
        return {}

    def close(self) -> None: ...

    def measure(self, case: Case, threads: int) -> Measurement:
        self.order.append(self.name)
        if not self.speeds:
            raise PeerError("Illegal instruction (exit status -4)")
        speed = self.speeds.pop(0) if len(self.speeds) > 1 else self.speeds[0]
        return Measurement(tokens=int(speed * 10), seconds=10.0, peak_rss_mb=100.0 + threads)


def compare(num_rounds: int, deadline_s: float = float("inf")) -> tuple[Runs, list[str]]:
    order: list[str] = []
    contenders = [
        FakeEngine(name="Stagemesh", family="stagemesh", speeds=[300, 100, 200], order=order),
        FakeEngine(name="Fast", family="fast", speeds=[100, 100, 110], order=order),
        FakeEngine(name="Slow", family="slow", speeds=[50], order=order),
        FakeEngine(name="Broken", family="broken", order=order),
    ]
    runs = Runs()
    rounds = Rounds(contenders=contenders, cases=[DECODE, BATCH], threads=2, protected="Stagemesh", runs=runs)
    rounds.run(num_rounds, deadline_s)
    return runs, order


def result_of(runs: Runs) -> dict[str, Any]:
    about = {"threads": [2], "date": "2026-01-01", "machine": {"cpu": "X", "vectors": "avx2", "cores": 2}}
    return as_json(runs, "Stagemesh", about)


def test_contenders_take_turns_and_none_always_follows_the_same_one() -> None:
    _, order = compare(2)
    assert order[:4] == ["Stagemesh", "Fast", "Slow", "Broken"]
    assert order[4:6] == ["Stagemesh", "Fast"], "the first family that runs is enough for the batch"
    assert order[6:8] == ["Fast", "Stagemesh"]


def test_who_cannot_be_the_best_peer_is_not_run_again() -> None:
    runs, order = compare(3)
    assert order.count("Slow") == 1
    assert order.count("Broken") == 1
    assert runs.errors == {"Broken": "Illegal instruction (exit status -4)"}


def test_the_first_round_is_completed_after_the_deadline_and_no_other_begins() -> None:
    runs, _ = compare(5, deadline_s=time.monotonic() - 1.0)
    assert {len(measurements) for measurements in runs.measurements.values()} == {1}
    assert len(runs.measurements) == 5


def test_ratios_are_medians_against_the_best_peer() -> None:
    result = result_of(compare(3)[0])
    # Stagemesh: decode 300, 200, 200, batch 100, 200, 200; Fast: decode 100, 110, 110, batch 100, 110, 110
    assert result["stagemesh"]["decode"] == {"2": 200.0}
    assert result["peers"]["Fast"]["decode"] == {"2": 110.0}
    assert result["peers"]["Slow"] == {"decode": {"2": 50.0}, "peak_rss_mb": {"2": 102.0}}
    assert result["ratios"] == {"decode": {"2": 1.818}, "batch16": {"2": 1.818}}
    assert result["best_peers"]["decode"] == {"2": "Fast"}
    assert result["errors"] == {"Broken": "Illegal instruction (exit status -4)"}


def test_the_table_has_a_row_for_each_engine_and_says_who_did_not_run() -> None:
    words = table(result_of(compare(1)[0]), [DECODE, BATCH], "Stagemesh")
    assert "| Slow | 50 | – | 102 |" in words
    assert "| ratio to the best peer | 3.00× | 1.00× |  |" in words
    assert words.endswith("Broken did not run: Illegal instruction (exit status -4)")


def test_the_figure_is_sound_svg_with_a_bar_for_each_figure() -> None:
    figure = ElementTree.fromstring(draw(result_of(compare(3)[0])))
    bars = [element for element in figure.iter() if element.tag.endswith("rect") and element.get("rx")]
    assert len(bars) == 5
    lengths = [float(bar.get("width") or 0) for bar in bars]
    assert lengths[1] / lengths[0] == pytest.approx(110 / 200, abs=0.01)
    assert "Stagemesh" in {element.text for element in figure.iter()}


def test_quick_cases_measure_the_same_as_the_full_ones() -> None:
    assert [(case.name, case.counts) for case in QUICK_CASES] == [(case.name, case.counts) for case in CASES]


def test_rows_of_rotated_pairs_are_split_into_halves() -> None:
    ours = np.arange(2 * 6 * 1, dtype=np.float32).reshape(12, 1)  # two heads of six rows, first half before second
    theirs = ours.reshape(2, 2, 3, 1).swapaxes(1, 2).reshape(12, 1)  # as GGUF's writer interleaves them
    assert theirs[:6, 0].tolist() == [0, 3, 1, 4, 2, 5]
    assert np.array_equal(split_pairs(theirs, 2), ours)


def test_a_machine_is_named_with_its_vector_instructions() -> None:
    assert vector_level(["sse4_2", "avx2", "avx512f", "avx512_vnni"]) == "avx512-vnni"
    assert vector_level(["sse4_2", "avx2"]) == "avx2"
    assert machine_slug().replace("-", "").isalnum()


def test_help_works_without_any_peer() -> None:
    command = [sys.executable, "benchmarks/engine_vs_peers.py", "--help"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    output = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert "--peers" in output.stdout
