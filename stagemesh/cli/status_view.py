"""The state of a mesh as a table, as plain lines and as JSON."""

from __future__ import annotations

import time
from typing import Any

import psutil
from rich.console import Group
from rich.table import Table
from rich.text import Text

from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessRecord, ProcessState
from stagemesh.cli.supervisor.state_dir import StateDir

STYLES = {
    ProcessState.READY: "green",
    ProcessState.FAILED: "bold red",
    ProcessState.BACKOFF: "red",
    ProcessState.NOT_READY: "yellow",
    ProcessState.STARTING: "yellow",
}


def as_json(state: StateDir, record: MeshRecord | None) -> dict[str, Any]:
    """What `stagemesh status --json` prints."""
    return {
        "running": record is not None,
        "ready": record is not None and record.ready,
        "state_dir": str(state.path),
        "grpc_address": record.grpc_address if record else None,
        "http_address": record.http_address if record else None,
        "default_model": record.default_model if record else None,
        "supervisor_pid": record.supervisor_pid if record else None,
        "processes": [_process_json(process) for process in record.processes] if record else [],
    }


def _process_json(process: ProcessRecord) -> dict[str, Any]:
    return {
        "name": process.name,
        "state": process.state.value,
        "address": process.address,
        "pid": process.pid or None,
        "since_s": round(max(0.0, time.time() - process.since), 3),
        "restarts": process.restarts,
        "memory_bytes": memory_bytes(process.pid),
        "reason": process.reason or None,
    }


def memory_bytes(pid: int) -> int | None:
    """Resident memory; None when there is no such process."""
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid else None
    except psutil.Error:
        return None


def table(record: MeshRecord) -> Table:
    """The processes of the mesh for a terminal."""
    view = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("process", "state", "for", "address", "pid", "memory", "restarts", ""):
        right = name in {"for", "pid", "memory", "restarts"}
        view.add_column(name, justify="right" if right else "left", no_wrap=bool(name))
    for process in record.processes:
        view.add_row(
            process.name,
            Text(process.state.value, style=STYLES.get(process.state, "")),
            age(time.time() - process.since),
            process.address,
            str(process.pid or "-"),
            size(memory_bytes(process.pid)),
            str(process.restarts),
            Text(process.reason, style="dim"),
        )
    return view


def view(record: MeshRecord) -> Group:
    """Processes and addresses."""
    addresses = f"gRPC {record.grpc_address}   HTTP http://{record.http_address}/v1   model {record.default_model}"
    return Group(table(record), Text(), Text(addresses))


def plain_line(process: ProcessRecord) -> str:
    """One line for logs and pipes."""
    reason = f" ({process.reason})" if process.reason else ""
    return f"{process.name}: {process.state.value}{reason}"


def age(seconds: float) -> str:
    """`5s`, `3m`, `2h`, `4d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def size(num_bytes: int | None) -> str:
    """`123 MB`, or `-`."""
    return "-" if num_bytes is None else f"{num_bytes / 1e6:.0f} MB"
