"""What the scripts go by; the cache service writes it, so engines need not know it."""

from __future__ import annotations

from dataclasses import dataclass

LIMITS_TTL_S = 86_400
"""Written again far more often; a KV Redis whose cache service has been away for a day takes nothing more."""


@dataclass(frozen=True, kw_only=True)
class KvLimits:
    epoch: int
    """Pages of leases of another epoch are not taken."""
    total_bytes: int
    """Budget of all namespaces together, as the server's allocator counts."""
    tenant_bytes: int
    """Budget of one namespace."""
    pinned_bytes: int
    """How much of a namespace may be protected."""
    tau_s: float
    """Time constant with which uses are forgotten."""

    def arguments(self) -> list[bytes | str | float]:
        """As `limits.lua` takes them."""
        return [
            LIMITS_TTL_S,
            *("epoch", str(self.epoch), "total_bytes", self.total_bytes, "tenant_bytes", self.tenant_bytes),
            *("pinned_bytes", self.pinned_bytes, "tau_s", self.tau_s),
        ]
