"""Which records of one partition are done, when they end in another order than they began."""

from __future__ import annotations


class OffsetTracker:
    """Begun records of one partition, in order. The position to commit lies before the first that is not done.

    begun:   5 6 7 8 9        done: 5, 6, 8        position: 7
    """

    def __init__(self) -> None:
        self._pending: dict[int, None] = {}  # offsets in ascending order
        self._next = -1

    def can_begin(self, offset: int) -> bool:
        """False for an offset before the last begun one: the log has started anew, and so must its tracker."""
        return offset >= self._next

    def begin(self, offset: int) -> None:
        assert self.can_begin(offset)
        self._pending[offset] = None
        self._next = offset + 1

    def finish(self, offset: int) -> int:
        """Mark one record as done; gives the position, i.e. the offset of the next record wanted after a restart."""
        del self._pending[offset]
        return next(iter(self._pending), self._next)
