"""Positions to commit when records end in another order than they began."""

from __future__ import annotations

import random

import pytest

from stagemesh.runtime.offsets import OffsetTracker


def test_the_position_stays_before_the_first_unfinished_record() -> None:
    tracker = OffsetTracker()
    for offset in (5, 6, 7, 9):  # 8 is a gap, as compaction leaves them
        tracker.begin(offset)
    assert [tracker.finish(offset) for offset in (6, 5, 9, 7)] == [5, 7, 7, 10]


def test_an_earlier_offset_cannot_begin() -> None:
    tracker = OffsetTracker()
    tracker.begin(5)
    assert not tracker.can_begin(5)
    assert not tracker.can_begin(0)
    assert tracker.can_begin(6)


@pytest.mark.parametrize("seed", range(5))
def test_no_unfinished_record_is_ever_before_the_position(seed: int) -> None:
    tracker, pending = OffsetTracker(), list(range(100))
    for offset in pending:
        tracker.begin(offset)
    random.Random(seed).shuffle(pending)
    while pending:
        position = tracker.finish(pending.pop())
        assert position == min(pending, default=100)
