"""The keys below `cache.kv`: KV pages that outlive the engines."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section

MEGABYTE = 1024 * 1024


class KvConfig(Section):
    enabled: bool = True
    """Look up and store KV pages in the KV Redis; without it what no engine has in memory is computed."""
    total_mb: int = Field(default=1024, ge=1)
    """Budget of all stored pages together, in MiB of the KV Redis' memory. An embedded one gets a quarter more."""
    tenant_mb: int = Field(default=0, ge=0)
    """Budget of one tenant; 0: the whole. Over its budget a tenant loses the least valuable of its own pages."""
    pinned_percent: float = Field(default=25.0, ge=0, le=100)
    """How much of its budget a tenant's protected pages may take, and public pages of the whole."""
    ttl_s: int = Field(default=86_400, ge=60)
    """A page is erased this long after its last use, or up to a sixteenth earlier."""
    heat_tau_s: float = Field(default=21_600.0, gt=0)
    """Time constant with which uses of a page or session are forgotten: after it a use counts 37 %."""
    lookup_budget_ms: float = Field(default=5.0, gt=0)
    """How long a lookup may hold up a request; then it runs cold. Beyond 8,192 tokens it has more, in proportion."""
    max_lookup_tokens: int = Field(default=32_768, ge=16)
    """Tokens of a prompt that are looked up and stored; those behind them are computed."""
    sweep_interval_s: float = Field(default=30.0, gt=0)
    """How often the index is compared with what is there."""

    def tenant_bytes(self) -> int:
        return (self.tenant_mb or self.total_mb) * MEGABYTE

    def total_bytes(self) -> int:
        return self.total_mb * MEGABYTE
