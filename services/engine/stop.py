"""Stop strings, matched on the bytes of the answer across token boundaries."""

from __future__ import annotations

from collections.abc import Iterable


class StopMatcher:
    """Sees the answer's bytes as they come and says when a stop string is complete."""

    def __init__(self, stop: Iterable[str]) -> None:
        self._stop = [(text, text.encode()) for text in stop]
        self._max_tail_bytes = max((len(pattern) for _, pattern in self._stop), default=1) - 1
        self._tail = b""

    def push(self, text: bytes) -> str | None:
        """Take the next bytes; gives the stop string that begins first in the text, once one is complete."""
        if not self._stop:
            return None
        window = self._tail + text
        found = [(at, number) for number, (_, pattern) in enumerate(self._stop) if (at := window.find(pattern)) >= 0]
        self._tail = window[-self._max_tail_bytes :] if self._max_tail_bytes else b""
        return self._stop[min(found)[1]][0] if found else None
