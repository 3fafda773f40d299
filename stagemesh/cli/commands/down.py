"""`stagemesh down`"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from stagemesh.cli.exits import CommandError
from stagemesh.cli.mesh_access import state_option, stop_supervisor
from stagemesh.cli.supervisor.leftovers import end_leftovers
from stagemesh.cli.supervisor.mesh_file import read_mesh
from stagemesh.cli.supervisor.state_dir import locate_state

KILL_TIMEOUT_S = 10.0


@click.command("down")
@state_option
@click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to drain before all is killed.")
def command(state: Path | None, timeout_s: float) -> None:
    """Drain and stop the mesh.

    The gateway takes no new requests and finishes those it has, then the services end, then the embedded servers.
    """
    where = locate_state(state)
    record = read_mesh(where.mesh_file)
    if record is None or not record.running:
        left = end_leftovers(record, KILL_TIMEOUT_S) if record else []
        click.echo(f"No mesh runs on {where.path}." + (f" Ended what a crash left: {', '.join(left)}." if left else ""))
        return
    if not stop_supervisor(record, timeout_s):
        os.kill(record.supervisor_pid, signal.SIGKILL)
        end_leftovers(read_mesh(where.mesh_file) or record, KILL_TIMEOUT_S)
        raise CommandError(f"the mesh did not drain within {timeout_s:g} s and was killed; see {where.logs}")
    click.echo("Stopped.")
