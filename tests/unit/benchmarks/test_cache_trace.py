"""The policies of the trace benchmark against their definitions, and the benchmark on a short trace."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trace_made_up import conversations
from benchmarks.trace_oracles import auc, chances_in_hindsight, hits, oracles, shares_returned
from benchmarks.trace_ours import ours, ours_without_sessions
from benchmarks.trace_policies import POLICIES, lfu, lru, optimal, s3fifo
from benchmarks.trace_requests import TraceRequest, read_trace, visits

BLOCKS = st.lists(st.integers(0, 6), max_size=12)
CAPACITIES = st.integers(1, 4)


def best_possible(blocks: list[int], capacity: int) -> int:
    """By trying every choice."""

    @cache
    def from_here(now: int, held: frozenset[int]) -> int:
        if now == len(blocks):
            return 0
        block = blocks[now]
        options = [held] if block in held else [held, *(held - {out} | {block} for out in held)]
        if block not in held and len(held) < capacity:
            options.append(held | {block})
        return (block in held) + max(from_here(now + 1, option) for option in options)

    return from_here(0, frozenset())


@given(BLOCKS, CAPACITIES)
def test_the_optimum_is_the_best_of_all_choices(blocks: list[int], capacity: int) -> None:
    assert optimal(blocks, capacity) == best_possible(blocks, capacity)


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(1, 20))
def test_no_policy_beats_the_optimum(blocks: list[int], capacity: int) -> None:
    best = optimal(blocks, capacity)
    assert all(0 <= policy(blocks, capacity) <= best for policy in POLICIES.values())


@given(st.lists(st.integers(0, 9), max_size=100), st.integers(1, 8))
def test_lru_finds_what_was_among_the_last_distinct_blocks(blocks: list[int], capacity: int) -> None:
    hits = 0
    for now, block in enumerate(blocks):
        distinct = list(dict.fromkeys(reversed(blocks[:now])))
        hits += block in distinct[:capacity]
    assert lru(blocks, capacity) == hits


def test_everything_hits_its_second_time_where_there_is_room_for_all() -> None:
    blocks = [random.Random(1).randrange(50) for _ in range(1_000)]
    assert {policy(blocks, 50) for policy in (lru, lfu, optimal)} == {len(blocks) - len(set(blocks))}


def test_s3fifo_keeps_what_is_used_again_from_a_scan() -> None:
    hot = [1, 2, 3] * 3
    scan = list(range(100, 160))
    assert s3fifo([*hot, *scan, 1, 2, 3], 20) == 6 + 3
    assert lru([*hot, *scan, 1, 2, 3], 20) == 6


def test_our_policy_does_not_beat_the_optimum_and_finds_all_where_there_is_room() -> None:
    requests = conversations(seed=3)
    blocks = [block for request in requests for block in request.blocks]
    assert ours(requests, 60) <= optimal(blocks, 60)
    assert ours(requests, 10_000) == len(blocks) - len(set(blocks))


def test_our_policy_beats_lru_where_many_conversations_end_at_once() -> None:
    requests = conversations(seed=5, count=400)
    blocks = [block for request in requests for block in request.blocks]
    assert ours(requests, 250) > lru(blocks, 250)


def test_without_sessions_our_policy_does_as_well_as_with_them_within_a_tenth() -> None:
    requests = conversations(seed=5, count=400)
    assert ours_without_sessions(requests, 250) > 0.9 * ours(requests, 250)


def test_who_knows_which_conversations_go_on_finds_more_than_ours_and_errors_cost() -> None:
    requests = conversations(seed=5, count=400)
    named, uses = oracles(requests, 250), sum(len(request.blocks) for request in requests)
    assert named["goes_on"] > ours(requests, 250) / uses
    assert named["goes_on"] > named["goes_on_90_20"] > named["goes_on_70_30"]


def test_chances_that_are_certain_and_right_rank_every_page_and_even_ones_none() -> None:
    seen = list(visits(conversations(seed=5, count=200)))
    returned = shares_returned(seen)
    assert auc(returned, seen, returned) > 0.9  # a region may return in part
    assert auc(returned * 0, seen, returned) == 0.5
    hindsight = chances_in_hindsight(seen, returned)
    assert hindsight.shape == returned.shape
    assert 0 < hits(seen, hindsight, 100) < sum(len(visit.request.blocks) for visit in seen)


def test_visits_know_nothing_of_what_comes_later() -> None:
    requests = conversations(seed=7)
    whole = list(visits(requests))
    assert list(visits(requests[:40])) == whole[:40]


def test_a_request_continues_the_last_that_held_its_known_blocks() -> None:
    requests = [
        TraceRequest(0.0, (0, 1, 2), 1_500, 100),
        TraceRequest(1.0, (0, 9), 900, 100),
        TraceRequest(60.0, (0, 1, 3), 1_536, 100),
    ]
    first, other, second = visits(requests)
    assert (first.previous, other.previous, second.previous) == (None, None, 0)
    assert (second.visit.turn, second.visit.idle_s, second.visit.known_tokens) == (2, 60.0, 1_024)
    assert (second.visit.remembered_tokens, second.visit.prompt_tokens) == (1_600, 1_536)
    assert first.visit.prompt_tokens == 1_024  # the last block is not full


def test_the_command_prints_every_policy_for_both_budgets(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl.gz"
    with gzip.open(trace, "wt") as file:
        for request in conversations(seed=11):
            row = {
                "timestamp": round(request.at_s * 1000),
                "input_length": request.prompt_tokens,
                "output_length": request.answer_tokens,
                "hash_ids": request.blocks,
            }
            file.write(json.dumps(row) + "\n")
    command = [sys.executable, "benchmarks/cache_trace.py", "--json", "--oracles", "--requests", "200"]
    command += ["--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["requests"] == 200 == len(read_trace(trace, 200))
    assert set(result["budgets"]) == {"10", "25"}
    names = {"ours", "ours_without_sessions", "lru", "lfu", "s3fifo", "optimal"}
    assert all(set(ratios) == names for ratios in result["budgets"].values())
    assert {"goes_on", "hindsight", "auc_ours", "auc_hindsight"} <= set(result["oracles"]["10"])
