"""The benchmark of anchor lookups in its short form: its figures are there, and every answer is that of a scan."""

from __future__ import annotations

import random

from benchmarks.anchor_lookup import make_keys, parse, run


def test_the_short_form_prints_all_figures_and_no_wrong_answer() -> None:
    figures = run(parse(["--keys", "2000", "--lookups", "50", "--compared", "10", "--busy"]))
    assert {
        "keys",
        "load_s",
        "memory_mb",
        "private_mb",
        "exact_p99_us",
        "near_p99_us",
        "two_edits_p99_ms",
    } <= figures.keys()
    assert (figures["keys"], figures["compared"], figures["wrong"]) == (2_000, 40, 0)


def test_a_seed_makes_the_same_keys_all_different() -> None:
    first, second = (make_keys(400, random.Random(3)) for _ in range(2))
    assert first == second
    assert len(set(first)) == 400
