"""How long each request has been waiting for capacity."""

from __future__ import annotations

import time
from collections.abc import Callable


class WaitBudget:
    """A budget of waiting per request, from its first refusal on. Forgets requests that have ended."""

    def __init__(self, budget_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget_s = budget_s
        self._clock = clock
        self._since_s: dict[tuple[str, str], float] = {}

    def can_wait(self, tenant_id: str, request_id: str) -> bool:
        """Whether the request may wait once more; the first call starts its clock."""
        now_s = self._clock()
        return now_s - self._since_s.setdefault((tenant_id, request_id), now_s) < self._budget_s

    def forget(self, tenant_id: str, request_id: str) -> None:
        self._since_s.pop((tenant_id, request_id), None)

    def __len__(self) -> int:
        return len(self._since_s)
