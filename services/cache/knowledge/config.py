"""The `cache.knowledge` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class KnowledgeConfig(Section):
    max_bases_per_tenant: int = Field(default=64, ge=1)
    """Knowledge bases of one tenant; beyond it a new one is refused."""
    max_documents: int = Field(default=1_000_000, ge=1)
    """Documents that one sync may send."""
    max_sync_bytes: int = Field(default=2 * 1024**3, ge=1_024)
    """Text that one sync may send."""
    max_open_bases: int = Field(default=64, ge=1)
    """Bases that a cache process keeps ready; the one not asked for the longest makes room."""
    search_budget_ms: float = Field(default=200.0, gt=0)
    """How long a search may hold up a request; then it runs without passages."""
    min_coverage: float = Field(default=0.3, ge=0, le=1)
    """The share of a question's weight (its rare words weigh more) that a passage must contain to be used."""
    idle_timeout_s: float = Field(default=60.0, gt=0)
    """A sync whose caller sends nothing for so long is given up."""
