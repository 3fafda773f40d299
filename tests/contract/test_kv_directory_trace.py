"""A stretch of conversations through the real directory, time compressed: the budget holds and every key has a TTL."""

from __future__ import annotations

from pathlib import Path

from quality_support import running_valkey

from benchmarks.trace_directory import replay
from benchmarks.trace_made_up import conversations


def test_memory_stays_within_the_budget_and_no_key_is_without_ttl(tmp_path: Path) -> None:
    requests = conversations(seed=3, count=400)
    with running_valkey(tmp_path) as valkey:
        result = replay(valkey.url, requests, percent=10, speed=1_000.0)
    assert 0 < result.max_counted_bytes <= result.budget_bytes
    assert result.keys_without_ttl == 0
    assert result.hit_ratio > 0
