"""The mesh of a state folder, seen from the command."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.supervisor.mesh_file import MeshRecord, is_same_process, read_mesh
from stagemesh.cli.supervisor.state_dir import StateDir, locate_state

POLL_INTERVAL_S = 0.1


def state_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--state DIR`, as all commands have it."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the mesh. [default: $STAGEMESH_STATE, or the user's state folder]",
    )(function)


def running_mesh(state: StateDir) -> MeshRecord | None:
    """The record of the mesh that runs on `state`; None when none does, also after a crash or a reboot."""
    record = read_mesh(state.mesh_file)
    return record if record is not None and record.running else None


def command_for(name: str, state: StateDir) -> str:
    """`stagemesh NAME` for the mesh on `state`, with `--state` where another one would be meant without it."""
    return f"stagemesh {name}" + ("" if locate_state(None) == state else f" --state {shlex.quote(str(state.path))}")


def require_mesh(state: StateDir) -> MeshRecord:
    """The running mesh. Raises CommandError that says how to start one."""
    record = running_mesh(state)
    if record is None:
        raise CommandError(
            f"no mesh runs on {state.path}; start one with `stagemesh up`, or name another folder with --state",
            Exit.UNREACHABLE,
        )
    return record


def find_mesh(state: Path | None) -> tuple[StateDir, MeshRecord | None]:
    where = locate_state(state)
    return where, running_mesh(where)


def stop_supervisor(record: MeshRecord, timeout_s: float) -> bool:
    """Ask the supervisor to drain and stop everything; False when it has not ended in time."""
    os.kill(record.supervisor_pid, signal.SIGTERM)
    return wait_supervisor(record, timeout_s)


def wait_supervisor(record: MeshRecord, timeout_s: float) -> bool:
    """Wait for the supervisor's end."""
    until = time.monotonic() + timeout_s
    while is_same_process(record.supervisor_pid, record.supervisor_started_at):
        if time.monotonic() > until:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True
