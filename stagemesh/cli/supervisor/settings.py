"""The `supervisor` section of `stagemesh.yaml`."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class SupervisorConfig(Section):
    start_timeout_s: float = Field(default=180.0, gt=0)
    """A process that has not been ready yet may leave its health unanswered this long before it is restarted."""
    stuck_after_s: float = Field(default=20.0, gt=0)
    """A process that was ready and leaves its health unanswered this long is killed and restarted."""
    probe_interval_s: float = Field(default=1.0, gt=0)
    """Time between two health checks of a ready process; one that starts is asked more often."""
    backoff_initial_s: float = Field(default=0.1, gt=0)
    """Wait before the first restart; each further one doubles it."""
    backoff_max_s: float = Field(default=15.0, gt=0)
    """Longest wait before a restart."""
    stable_after_s: float = Field(default=20.0, gt=0)
    """A process that has been ready this long starts with the first back-off again."""
    max_log_bytes: int = Field(default=10 * 1024 * 1024, ge=4096)
    """Size at which a log is rotated."""
    num_old_logs: int = Field(default=2, ge=0)
    """Rotated logs kept beside the current one, for each process."""
