"""Grammars say which tokens they allow while the model computes what it thinks of them."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from services.engine.scheduler import WorkItem
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

MAX_WAIT_S = 30.0
"""A grammar's limits end the work on a mask long before."""


class MaskThread:
    """Starts with the first constraint. The library lets go of the interpreter while it computes a mask, as the kernels
    do while they compute a step."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    @contextmanager
    def preparing(self, items: Seq[WorkItem]) -> Iterator[None]:
        """Within, what the items that yield a token will ask of their grammars is worked out; leave those alone."""
        mine = [item for item in items if item.samples and item.sequence.constraint is not None]
        if not mine:
            yield
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="engine-masks")
        work = self._executor.submit(_prepare, mine)
        try:
            yield
        finally:
            work.result(MAX_WAIT_S)


def _prepare(items: Seq[WorkItem]) -> None:
    for item in items:
        assert item.sequence.constraint is not None
        try:
            item.sequence.constraint.prepare(item.drafts)
        except Exception:  # what fails here fails again where it is asked, and ends that sequence alone
            log.exception("preparing a mask failed", sequence_id=item.sequence.sequence_id)
