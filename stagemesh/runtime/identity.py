"""Who this process is, so that a restarted one is never mistaken for the old one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

INSTANCE_KEY = "x-instance"
"""Trailing metadata of every answer of a service: `INSTANCE/GENERATION`."""

_STARTED_NS = time.time_ns()


@dataclass(frozen=True, kw_only=True)
class Identity:
    instance: str
    """Name of the process in the mesh, e.g. `engine-2`."""
    generation: int
    """Start time in ns since the epoch."""

    def __str__(self) -> str:
        return f"{self.instance}/{self.generation}"


def process_identity(service: str = "process") -> Identity:
    """The identity of this process: `STAGEMESH_INSTANCE`, or the service's name and the process ID."""
    return Identity(instance=os.environ.get("STAGEMESH_INSTANCE") or f"{service}-{os.getpid()}", generation=_STARTED_NS)


def parse_identity(text: str) -> Identity | None:
    """What `str(identity)` wrote; None for anything else."""
    instance, _, generation = text.rpartition("/")
    return Identity(instance=instance, generation=int(generation)) if instance and generation.isdigit() else None
