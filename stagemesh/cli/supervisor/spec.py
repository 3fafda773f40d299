"""One process of the mesh, as it is to be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from stagemesh.cli.supervisor.probe import Probe


class Phase(IntEnum):
    """Order of the start; stopping goes the other way round, so that the gateway drains first."""

    SERVER = 0
    """Redis and Kafka: the others wait until they are ready."""
    SERVICE = 1
    GATEWAY = 2
    """Started together with the services."""


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    name: str
    """Instance name, e.g. `engine-2`; also the name of its log."""
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the supervisor's own environment."""
    address: str = ""
    probe: Probe
    phase: Phase = Phase.SERVICE
    max_wait_s: float | None = None
    """A server's: how long the services wait for it. None: until it was ready, or has failed for good."""
