"""Processes of a mesh whose supervisor died before it could stop them."""

from __future__ import annotations

import os
import signal
import time

from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessRecord, is_same_process

POLL_INTERVAL_S = 0.05


def end_leftovers(record: MeshRecord, grace_s: float) -> list[str]:
    """End what a dead supervisor left behind: SIGTERM, and SIGKILL after `grace_s`. Gives their names."""
    left = _alive(record.processes)
    for process in left:
        _signal_group(process.pid, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while _alive(left) and time.monotonic() < until:
        time.sleep(POLL_INTERVAL_S)
    for process in _alive(left):
        _signal_group(process.pid, signal.SIGKILL)
    return [process.name for process in left]


def _alive(processes: tuple[ProcessRecord, ...]) -> tuple[ProcessRecord, ...]:
    return tuple(process for process in processes if is_same_process(process.pid, process.started_at))


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # it ended by itself
