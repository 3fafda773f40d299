"""Grammars say which tokens they allow while the model computes what it thinks of them."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

from services.engine.kernels.native.token_mask import TokenMask
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

MAX_WAIT_S = 30.0
"""A grammar's limits end the work on a mask long before."""


def with_masks(items: Seq[WorkItem]) -> Seq[WorkItem]:
    """The items, those under a grammar with masks that `preparing` tells."""
    if all(item.sequence.constraint is None for item in items):
        return items
    return [
        replace(item, masks=tuple(TokenMask() for _ in range(item.num_sampled))) if _has_grammar(item) else item
        for item in items
    ]


class MaskThread:
    """Starts with the first constraint. The library lets go of the interpreter while it computes a mask, as the kernels
    do while they compute a step."""

    def __init__(self, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_wait_s = max_wait_s
        self._executor: ThreadPoolExecutor | None = None

    @contextmanager
    def preparing(self, items: Seq[WorkItem]) -> Iterator[list[Sequence]]:
        """Within, what the items that yield a token will ask of their grammars is worked out, and their masks are told;
        leave those alone.

        Gives a list, in which stands afterwards whose grammar did not come back and must not be touched any more.
        """
        late: list[Sequence] = []
        mine = [item for item in items if _has_grammar(item)]
        if not mine:
            yield late
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="engine-masks")
        preparing = _Preparing(mine)
        work = self._executor.submit(preparing.run)
        try:
            yield late
        finally:
            try:
                work.result(self._max_wait_s)
            except TimeoutError:
                late += preparing.abandon()
                self._executor.shutdown(wait=False)  # its thread ends when it comes back
                self._executor = None


def _has_grammar(item: WorkItem) -> bool:
    return item.samples and item.sequence.constraint is not None


class _Preparing:
    """One after the other, until it is abandoned."""

    def __init__(self, items: Seq[WorkItem]) -> None:
        self._left = list(reversed(items))
        self._present: WorkItem | None = None
        self._lock = Lock()

    def run(self) -> None:
        while (item := self._next()) is not None:
            assert item.sequence.constraint is not None
            try:
                item.sequence.constraint.prepare(item.drafts, item.masks)
            except Exception:  # what fails here fails again where it is asked, and ends that sequence alone
                log.exception("preparing a mask failed", sequence_id=item.sequence.sequence_id)

    def abandon(self) -> list[Sequence]:
        """Begin none any more; gives the sequence that is at work, if any."""
        with self._lock:
            self._left.clear()
            return [] if self._present is None else [self._present.sequence]

    def _next(self) -> WorkItem | None:
        with self._lock:
            self._present = self._left.pop() if self._left else None
            return self._present
