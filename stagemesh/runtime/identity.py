"""Who this process is, so that a restarted one is never mistaken for the old one."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Identity:
    instance: str
    """Name of the process in the mesh, e.g. `engine-2`."""
    generation: int
    """Start time in ns since the epoch."""


def process_identity(service: str) -> Identity:
    """The identity of this process: `STAGEMESH_INSTANCE`, or service, host and process ID (1 in any container)."""
    return Identity(
        instance=os.environ.get("STAGEMESH_INSTANCE") or f"{service}-{socket.gethostname()}-{os.getpid()}",
        generation=time.time_ns(),
    )
