"""`stagemesh up`"""

from __future__ import annotations

from pathlib import Path

import click

from stagemesh.cli import console
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import command_for, running_mesh, state_option
from stagemesh.cli.starting import ensure_models, run_attached, start_detached
from stagemesh.cli.supervisor.mesh import check_public_ports
from stagemesh.cli.supervisor.mesh_settings import read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.runtime.config import ConfigError

EPILOG = """\b
Examples:
  stagemesh up                                      watch it here, Ctrl-C drains and stops it
  stagemesh up --detach --wait                      in the background; returns when all is ready
  stagemesh up --config stagemesh.yaml --engines 2
  stagemesh up --state ./second --grpc-port 50151 --http-port 8180 --detach"""

port = click.IntRange(1, 65_535)


@click.command("up", epilog=EPILOG)
@click.option("--detach", is_flag=True, help="Run in the background; `stagemesh down` stops it.")
@click.option("--wait", is_flag=True, help="With --detach: return when all processes are ready.")
@click.option(
    "--wait-timeout", "timeout_s", default=180.0, show_default=True, help="Seconds that --wait and --ask wait."
)
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="stagemesh.yaml. [default: $STAGEMESH_CONFIG]"
)
@click.option("--engines", type=click.IntRange(1, 64), help="Engines for the default model.")
@state_option
@click.option("--grpc-port", type=port, help="Port of the gRPC API. [default: 50051]")
@click.option("--http-port", type=port, help="Port of the HTTP API. [default: 8080]")
@click.option("--ask", metavar="PROMPT", help="When all is ready, ask this and show the answer with its stages.")
def command(
    detach: bool,
    wait: bool,
    timeout_s: float,
    config: Path | None,
    engines: int | None,
    state: Path | None,
    grpc_port: int | None,
    http_port: int | None,
    ask: str | None,
) -> None:
    """Start the mesh on this machine: every service a process of its own, watched and restarted.

    Without STAGEMESH_REDIS_URL and STAGEMESH_KAFKA_BOOTSTRAP it also starts embedded servers of both kinds.
    """
    options = UpOptions(config=config, state=state, engines=engines, grpc_port=grpc_port, http_port=http_port)
    try:
        settings = read_settings(options)
        options = options.model_copy(update={"config": settings.config_path, "state": settings.state.path})
        settings.state.create()
        if running_mesh(settings.state):
            raise CommandError(
                f"a mesh with the state folder {settings.state.path} is running; "
                f"`{command_for('status', settings.state)}` shows it, `{command_for('down', settings.state)}` "
                "stops it, `--state DIR` with other ports starts another one beside it",
                Exit.USAGE,
            )
        check_public_ports(settings)
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    except OSError as error:
        raise CommandError(
            f"the state folder cannot be used: {error}; choose another with --state", Exit.USAGE
        ) from None
    ensure_models(settings)
    if detach:
        start_detached(options, settings, wait_s=timeout_s if wait or ask else None, ask=ask)
        stop = command_for("down", settings.state)
        console.err.print(f"Running in the background on {settings.state.path}; `{stop}` stops it.")
    else:
        run_attached(options, settings, wait_s=timeout_s, ask=ask)
