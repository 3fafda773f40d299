"""What was observed of a mesh. No judgement: that is for the rules."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ProcessEvidence:
    name: str
    state: str
    """As the supervisor says: `ready`, `backing off`, `failed` …"""
    reason: str = ""
    alive: bool = True
    """There is a process with its PID."""
    stopped: bool = False
    """The system says that it is stopped (SIGSTOP, a debugger)."""
    answers: bool = True
    """Its health answered in time."""
    restarts: int = 0
    last_words: str = ""
    """The last lines of its log that speak of memory, where there are any."""


@dataclass(frozen=True, kw_only=True)
class RedisEvidence:
    name: str
    reachable: bool = True
    delay_ms: float = 0.0
    """Of a reply in the middle."""
    skew_s: float = 0.0
    """How far its clock is ahead of this one; negative when it is behind."""
    write_error: str = ""
    """What it says of its last attempts to write to disk."""


@dataclass(frozen=True, kw_only=True)
class EngineEvidence:
    instance: str
    model: str = ""
    error: str = ""
    """Reason of a failed probe; empty when it answered."""
    reasons: tuple[str, ...] = ()
    """Of stages that took a fallback in the probe."""
    probe_ms: float = 0.0
    waiting: int = 0
    running: int = 0
    max_running: int = 0
    celsius: float | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    mesh_runs: bool = True
    config_error: str = ""
    missing_names: tuple[str, ...] = ()
    """`key: host` of configured hosts that do not resolve."""
    taken_ports: tuple[str, ...] = ()
    disk_error: str = ""
    free_bytes: int | None = None
    processes: tuple[ProcessEvidence, ...] = ()
    redis: tuple[RedisEvidence, ...] = ()
    broker_error: str = ""
    tokenizer_error: str = ""
    """Reason of a failed probe of the tokenizer."""
    engines: tuple[EngineEvidence, ...] = ()
    broken_weights: tuple[str, ...] = ()
    """`model: tensor` of numbers in model files that are not finite."""
    gateway_waiting: int = 0
    """Requests that wait for a slot in the gateway."""
    notes: tuple[str, ...] = field(default=())
    """What could not be looked at, and why."""
