"""`mesh.json`: what is remembered of a mesh between starts, and what runs now. Its mode is 0600: it holds the token."""

from __future__ import annotations

import os
import secrets
import tempfile
from enum import StrEnum
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

CLOCK_TOLERANCE_S = 1.0
"""Start times of the same process may differ this much between two readings (clock ticks, clock steps)."""


class ProcessState(StrEnum):
    WAITING = "waiting"
    """Its turn to start has not come."""
    STARTING = "starting"
    READY = "ready"
    NOT_READY = "not ready"
    """Alive, but it takes no work now."""
    BACKOFF = "backing off"
    """It ended and will be started again."""
    FAILED = "failed"
    """It ended with a configuration error and will not be started again."""
    STOPPING = "stopping"
    STOPPED = "stopped"


class ProcessRecord(BaseModel):
    """One process of the mesh, as the supervisor last saw it."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: ProcessState
    address: str = ""
    pid: int = 0
    """0 while it does not run."""
    started_at: float = 0.0
    """Unix time at which the process was made; with `pid` it identifies the process across reboots."""
    since: float = 0.0
    """Unix time of the last change of `state`."""
    restarts: int = 0
    reason: str = ""
    """Why it last ended, or why it is not ready."""


class MeshRecord(BaseModel):
    model_config = ConfigDict(frozen=True)

    token: str = Field(default_factory=lambda: "mesh-" + secrets.token_urlsafe(24))
    """The secret that internal calls carry; the prefix keeps YAML from reading it as a number."""
    ports: dict[str, int] = Field(default_factory=dict)
    supervisor_pid: int = 0
    supervisor_started_at: float = 0.0
    grpc_address: str = ""
    http_address: str = ""
    ledger_url: str = ""
    kv_url: str = ""
    kafka_bootstrap: str = ""
    default_model: str = ""
    config: str = ""
    processes: tuple[ProcessRecord, ...] = ()

    @property
    def running(self) -> bool:
        """Whether the supervisor that wrote this is alive; False after a crash or a reboot."""
        return is_same_process(self.supervisor_pid, self.supervisor_started_at)

    @property
    def ready(self) -> bool:
        return bool(self.processes) and all(process.state is ProcessState.READY for process in self.processes)


def process_started_at(pid: int) -> float:
    """Unix time at which the process was made; 0.0 when there is none."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def is_same_process(pid: int, started_at: float) -> bool:
    """Whether `pid` still is the process that started at `started_at`, and not a later one or a zombie."""
    if not pid:
        return False
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started_at) <= CLOCK_TOLERANCE_S and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def read_mesh(path: Path) -> MeshRecord | None:
    """The record at `path`; None where there is none or it is damaged (the token and ports are then made anew)."""
    try:
        return MeshRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def write_mesh(path: Path, record: MeshRecord) -> None:
    """Replace the record in one step, so that a reader never sees half of one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".mesh-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(record.model_dump_json(indent=1))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
