"""Waiting for a mesh that was just started: it has begun, it is ready, or it says why it cannot."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from rich.live import Live

from stagemesh.cli import console
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import POLL_INTERVAL_S, running_mesh
from stagemesh.cli.status_view import view
from stagemesh.cli.status_watch import Changes
from stagemesh.cli.supervisor.log_file import last_lines
from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessState
from stagemesh.cli.supervisor.process import EXIT_CONFIG
from stagemesh.cli.supervisor.state_dir import StateDir

BEGIN_TIMEOUT_S = 30.0
"""For the supervisor to import its code and write `mesh.json`."""


def wait_begun(supervisor: subprocess.Popen[bytes], state: StateDir) -> MeshRecord:
    """The mesh's record, as soon as the supervisor has written it. Raises CommandError with its last words."""
    until = time.monotonic() + BEGIN_TIMEOUT_S
    while True:
        record = running_mesh(state)
        if record is not None and record.supervisor_pid == supervisor.pid:
            return record
        _check_alive(supervisor, state)
        if time.monotonic() > until:
            supervisor.kill()
            raise CommandError(f"the supervisor did not begin within {BEGIN_TIMEOUT_S:g} s; see {state.logs}")
        time.sleep(POLL_INTERVAL_S)


def wait_ready(supervisor: subprocess.Popen[bytes], state: StateDir, timeout_s: float) -> MeshRecord:
    """Show the start, and return when all processes are ready.

    Raises CommandError when one cannot start or the time is over; a detached mesh runs on.
    """
    until = time.monotonic() + timeout_s
    progress = _Progress()
    with progress:
        while True:
            _check_alive(supervisor, state)
            record = running_mesh(state)
            if record is not None:
                progress.show(record)
                _check_failed(record)
                if record.ready:
                    return record
            if time.monotonic() > until:
                waiting = (
                    ", ".join(each.name for each in record.processes if each.state is not ProcessState.READY)
                    if record
                    else "all"
                )
                raise CommandError(f"not ready within {timeout_s:g} s: {waiting}; `stagemesh logs NAME` says why")
            time.sleep(POLL_INTERVAL_S)


def _check_alive(supervisor: subprocess.Popen[bytes], state: StateDir) -> None:
    code = supervisor.poll()
    if code is None:
        return
    words = "\n".join(last_lines(state.log_of("supervisor"), 20)).removeprefix("stagemesh: ")
    raise CommandError(
        words or "the supervisor ended without a word", Exit.USAGE if code == EXIT_CONFIG else Exit.FAILED
    )


def _check_failed(record: MeshRecord) -> None:
    failed = [process for process in record.processes if process.state is ProcessState.FAILED]
    if failed:
        reasons = "; ".join(f"{process.name}: {process.reason}" for process in failed)
        raise CommandError(f"cannot start: {reasons}", Exit.USAGE)


class _Progress:
    """The start of a mesh: a live table on a terminal, a line per change elsewhere."""

    def __init__(self) -> None:
        self._live = Live(console=console.err, auto_refresh=False, transient=True) if console.err.is_terminal else None
        self._changes = Changes()

    def __enter__(self) -> _Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: Any) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, record: MeshRecord) -> None:
        if self._live is not None:
            self._live.update(view(record), refresh=True)
            return
        for line in self._changes.of(record):
            console.err.print(line)
