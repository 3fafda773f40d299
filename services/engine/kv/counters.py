"""What stored KV has come to in this process, in numbers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping


class Counters:
    """Sums by name and label; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[tuple[str, str]] = Counter()
        self.version = 0
        """Changes with every sum."""

    def add(self, name: str, label: str = "", amount: float = 1) -> None:
        """`name` is one of those of docs; `label` a tier or a cause."""
        if amount:
            with self._lock:
                self._sums[name, label] += amount  # type: ignore[assignment]  # seconds are sums as well
                self.version += 1

    def get(self, name: str, label: str = "") -> float:
        with self._lock:
            return self._sums[name, label]

    def snapshot(self) -> Mapping[tuple[str, str], float]:
        with self._lock:
            return dict(self._sums)
