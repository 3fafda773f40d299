"""What paired times show, and what they do not."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from benchmarks.median_interval import median_interval
from benchmarks.miss_overhead import overhead
from benchmarks.tenant_timing import Round, kept_rounds, report_of


def test_five_values_say_nothing_of_where_the_median_lies_with_95_percent_and_six_do() -> None:
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]).low == -math.inf
    six = median_interval([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    assert (six.median, six.low, six.high) == (3.5, 1.0, 6.0)


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    draw = random.Random(3)
    held = 0
    for _ in range(400):
        found = median_interval([draw.lognormvariate(0.0, 1.0) for _ in range(41)])
        held += found.low <= 1.0 <= found.high
    assert 0.93 <= held / 400 <= 1.0


def test_more_values_make_the_interval_narrower() -> None:
    draw = random.Random(4)
    few, many = (median_interval([draw.gauss(1.0, 0.1) for _ in range(number)]) for number in (20, 2_000))
    assert many.high - many.low < (few.high - few.low) / 3
    assert few.is_within(0.8, 1.2)
    assert not few.is_within(0.999, 1.001)


def test_an_overhead_is_shown_small_only_where_the_interval_says_so() -> None:
    draw = random.Random(5)
    cold = [[draw.gauss(500, 5), draw.gauss(500, 5)] for _ in range(60)]
    assert overhead(cold, [[ms * 1.005 for ms in quad] for quad in cold])["is_shown"]
    assert not overhead(cold, [[ms * 1.03 for ms in quad] for quad in cold])["is_shown"]
    assert not overhead(cold[:3], [quad[::-1] for quad in cold[:3]])["is_shown"], "too few to say"


@pytest.mark.parametrize(("factor", "reused", "is_equal"), [(1.001, 0, True), (1.05, 0, False), (1.001, 16, False)])
def test_times_are_equal_if_the_whole_interval_is_small_and_nothing_was_reused(
    factor: float, reused: int, is_equal: bool
) -> None:
    draw = random.Random(6)
    rounds = [Round(factor * draw.gauss(100, 1), draw.gauss(100, 1), 100.0, 30.0, 16 + reused, 16) for _ in range(200)]
    report = report_of(rounds)
    assert (report["equal"], report["probes"], report["control"]) == (is_equal, 400, 0.3)


def test_rounds_that_were_kept_count_again(tmp_path: Path) -> None:
    assert kept_rounds(tmp_path / "none") == []
    kept = tmp_path / "rounds.jsonl"
    kept.write_text(
        '{"asked_by_other": 1.0, "asked_by_nobody": 2.0, "first": 3.0, "again": null, '
        '"cached_of_other": 0, "cached_of_nobody": 16}\n'
    )
    assert kept_rounds(kept) == [Round(1.0, 2.0, 3.0, None, 0, 16)]
