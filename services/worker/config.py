"""The `worker` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class WorkerConfig(Section):
    listen: str = "127.0.0.1:50058"
    """`host:port` of the health service."""
    max_in_flight: int = Field(default=4, ge=1, le=1024)
    """Deferred requests that run side by side."""
    max_attempts: int = Field(default=5, ge=1)
    """Failed runs after which a request is dead-lettered. Waiting for capacity does not count."""
    first_backoff_s: float = Field(default=0.5, gt=0)
    """First pause before a failed run is tried again; each further one is longer."""
    max_backoff_s: float = Field(default=15.0, gt=0)
    """Pauses grow from the first to the longest; a gateway that says when to come back is obeyed."""
    wait_budget_s: float = Field(default=3600.0, gt=0)
    """How long a worker waits for capacity or for a gateway before a request counts as failed."""
    run_timeout_s: float = Field(default=900.0, gt=0)
    """Deadline of one call to the gateway."""
