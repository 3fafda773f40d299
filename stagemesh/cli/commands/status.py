"""`stagemesh status`"""

from __future__ import annotations

from pathlib import Path

import click

from stagemesh.cli import console, status_view
from stagemesh.cli.exits import Exit, until_interrupted
from stagemesh.cli.mesh_access import require_mesh, running_mesh, state_option
from stagemesh.cli.status_watch import watch_status
from stagemesh.cli.supervisor.state_dir import locate_state


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
        with until_interrupted():
            watch_status(where, record)
        return
    console.out.print(status_view.view(record))
    raise SystemExit(Exit.OK if record.ready else Exit.FAILED)
