"""What stored KV has come to in this process, in numbers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class KvStats:
    """How things stand."""

    host_pages: int
    host_bytes: int
    """Of this process's memory."""
    queued_pages: int
    """Pages that wait to be stored."""
    sums: Mapping[str, float] = field(default_factory=dict)
    """As `Counters.snapshot` gives them."""


class Counters:
    """Sums by name and label; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, label: str = "", amount: float = 1) -> None:
        """`name` is one of those in services/engine/README.md; `label` a tier or a cause."""
        if amount:
            with self._lock:
                self._sums[name, label] += amount  # type: ignore[assignment]  # seconds are sums as well

    def get(self, name: str, label: str = "") -> float:
        with self._lock:
            return self._sums[name, label]

    def snapshot(self) -> dict[str, float]:
        """Sums by `name/label`, or by the name alone where there is no label."""
        with self._lock:
            return {f"{name}/{label}" if label else name: value for (name, label), value in self._sums.items()}
