"""`stagemesh status`"""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from stagemesh.cli import console, status_view
from stagemesh.cli.exits import Exit
from stagemesh.cli.mesh_access import require_mesh, running_mesh, state_option
from stagemesh.cli.supervisor.mesh_file import MeshRecord
from stagemesh.cli.supervisor.state_dir import StateDir, locate_state

REFRESH_INTERVAL_S = 0.5


@click.command("status")
@state_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--watch", is_flag=True, help="Keep showing it until Ctrl-C.")
def command(state: Path | None, as_json: bool, watch: bool) -> None:
    """Show the processes of the mesh: state, address, memory, restarts and why.

    Exit code 0 when all are ready, 1 when one is not, 3 when no mesh runs.
    """
    where = locate_state(state)
    if as_json:
        record = running_mesh(where)
        console.print_json(status_view.as_json(where, record))
        raise SystemExit(Exit.UNREACHABLE if record is None else Exit.OK if record.ready else Exit.FAILED)
    record = require_mesh(where)
    if watch:
        follow(where)
        return
    console.out.print(view(record))
    raise SystemExit(Exit.OK if record.ready else Exit.FAILED)


def view(record: MeshRecord) -> Group:
    """Addresses and processes."""
    addresses = f"gRPC {record.grpc_address}   HTTP http://{record.http_address}/v1   model {record.default_model}"
    return Group(status_view.table(record), Text(), Text(addresses))


def follow(where: StateDir) -> None:
    """Show the state until Ctrl-C, or until the mesh has stopped: live on a terminal, changes as lines elsewhere."""
    record = require_mesh(where)
    if not console.out.is_terminal:
        _follow_lines(where, record)
        return
    with Live(view(record), console=console.out, auto_refresh=False, transient=True) as live:
        while (current := running_mesh(where)) is not None:
            live.update(view(current), refresh=True)
            time.sleep(REFRESH_INTERVAL_S)


def _follow_lines(where: StateDir, record: MeshRecord | None) -> None:
    shown: dict[str, str] = {}
    while record is not None:
        for process in record.processes:
            line = status_view.plain_line(process)
            if shown.get(process.name) != line:
                shown[process.name] = line
                click.echo(line)
        time.sleep(REFRESH_INTERVAL_S)
        record = running_mesh(where)
