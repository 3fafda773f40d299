"""A grammar that does not come back ends its own sequence."""

from __future__ import annotations

from threading import Event
from typing import Any, cast

from engine_support import make_sequence

from services.engine.mask_thread import MaskThread
from services.engine.scheduler import WorkItem


class Grammar:
    def __init__(self, waits_for: Event) -> None:
        self.waits_for, self.num_prepared, self.is_at_work = waits_for, 0, Event()

    def prepare(self, _drafts: Any, _masks: Any) -> None:
        self.is_at_work.set()
        assert self.waits_for.wait(60)
        self.num_prepared += 1


def item_of(name: str, waits_for: Event) -> WorkItem:
    sequence = make_sequence(name, [1, 2, 3])
    sequence.constraint = cast("Any", Grammar(waits_for))
    return WorkItem(sequence, 0, 3, samples=True)


def test_a_mask_that_is_late_names_its_own_sequence_and_the_next_step_has_a_thread_again() -> None:
    never, now = Event(), Event()
    now.set()
    stuck, waiting = item_of("stuck", never), item_of("waiting", now)
    masks = MaskThread(max_wait_s=0.05)
    with masks.preparing([stuck, waiting]) as late:
        assert cast("Any", stuck.sequence.constraint).is_at_work.wait(20)
    assert [sequence.sequence_id for sequence in late] == ["stuck"]
    masks._max_wait_s = 20.0
    with masks.preparing([waiting]) as late:
        pass
    assert late == []
    assert cast("Any", waiting.sequence.constraint).num_prepared == 1
    never.set()
