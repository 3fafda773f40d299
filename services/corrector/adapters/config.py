"""The `corrector.adapters` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class AdaptersConfig(Section):
    poll_s: float = Field(default=2.0, gt=0, le=60)
    """How often it is looked which adapters are in use, and counts of candidates are brought to the ledger."""
    redis_timeout_ms: float = Field(default=2_000.0, gt=0)
    """For one command to the ledger Redis."""
    max_beside: int = Field(default=2, ge=0)
    """Comparisons of a candidate with the present adapter that may be under way; further ones are left out and counted.
    0: candidates only answer their share."""
    beside_timeout_s: float = Field(default=20.0, gt=0)
    """For the adapter that does not answer."""
