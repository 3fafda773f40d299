"""The state of a mesh while it runs: live on a terminal, a line per change elsewhere."""

from __future__ import annotations

import time

import click
from rich.live import Live

from stagemesh.cli import console
from stagemesh.cli.mesh_access import running_mesh
from stagemesh.cli.status_view import plain_line, view
from stagemesh.cli.supervisor.mesh_file import MeshRecord, ProcessState
from stagemesh.cli.supervisor.state_dir import StateDir

REFRESH_INTERVAL_S = 0.5


def watch_status(state: StateDir, record: MeshRecord) -> None:
    """Show the state until the mesh has stopped, or Ctrl-C."""
    if console.out.is_terminal:
        _watch_live(state, record)
    else:
        _watch_lines(state, record)


def _watch_live(state: StateDir, record: MeshRecord | None) -> None:
    with Live(console=console.out, auto_refresh=False, transient=True) as live:
        while record is not None:
            live.update(view(record), refresh=True)
            time.sleep(REFRESH_INTERVAL_S)
            record = running_mesh(state)


def _watch_lines(state: StateDir, record: MeshRecord | None) -> None:
    changes = Changes()
    while record is not None:
        for line in changes.of(record):
            click.echo(line)
        time.sleep(REFRESH_INTERVAL_S)
        record = running_mesh(state)


class Changes:
    """What is new in a record, as lines."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def of(self, record: MeshRecord) -> list[str]:
        lines = {process.name: plain_line(process) for process in record.processes}
        waiting = {process.name for process in record.processes if process.state is ProcessState.WAITING}
        new = [line for name, line in lines.items() if self._shown.get(name) != line and name not in waiting]
        self._shown = lines
        return new
