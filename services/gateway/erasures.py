"""Tenants that one engine must be told to forget, and told again where a broken call may have lost it."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_TENANTS = 4_096
TOLD_S = 300.0
"""So long after it was sent, a message may still turn out not to have arrived."""


class Erasures:
    def __init__(self, *, max_tenants: int = MAX_TENANTS, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_tenants, self._clock = max_tenants, clock
        self._told_at_s: dict[str, float | None] = {}
        """None: not yet. The latest come last."""

    def add(self, tenant_id: str) -> bool:
        """The engine must be told; False where it has not been told of too many already."""
        self._drop_settled()
        self._told_at_s.pop(tenant_id, None)
        if len(self._told_at_s) >= self._max_tenants:
            return False
        self._told_at_s[tenant_id] = None
        return True

    def told(self, tenant_id: str) -> None:
        """The message has been sent."""
        if tenant_id in self._told_at_s:
            self._told_at_s[tenant_id] = self._clock()

    def to_tell(self) -> list[str]:
        """Whom a new call must name first."""
        self._drop_settled()
        return list(self._told_at_s)

    def _drop_settled(self) -> None:
        now_s = self._clock()
        self._told_at_s = {
            tenant_id: at_s for tenant_id, at_s in self._told_at_s.items() if at_s is None or now_s - at_s < TOLD_S
        }
