"""Prepare a mesh, and run it: the steps of the supervisor's process."""

from __future__ import annotations

import asyncio
import signal

from stagemesh.cli.supervisor.leftovers import end_leftovers
from stagemesh.cli.supervisor.lock import hold
from stagemesh.cli.supervisor.mesh_file import MeshRecord, read_mesh
from stagemesh.cli.supervisor.mesh_settings import MeshSettings, read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.plan import plan, port_names
from stagemesh.cli.supervisor.ports import assign_ports, can_bind, split_address
from stagemesh.cli.supervisor.servers import plan_servers
from stagemesh.cli.supervisor.spec import ProcessSpec
from stagemesh.cli.supervisor.supervisor import Supervisor
from stagemesh.runtime.config import ConfigError

LEFTOVER_GRACE_S = 5.0


def check_public_ports(settings: MeshSettings) -> None:
    """Raises ConfigError that names the option to change when a public port is taken."""
    for address, option in ((settings.grpc_address, "--grpc-port"), (settings.http_address, "--http-port")):
        host, port = split_address(address)
        if not can_bind(host, port):
            raise ConfigError(f"port {port} on {host} is taken or not permitted; choose another with {option}")


def run_mesh(options: UpOptions) -> None:
    """Run the mesh until it is told to stop. Before anything starts: ConfigError, AlreadyRunning or NoFreePort."""
    settings = read_settings(options)
    settings.state.create()
    with hold(settings.state):
        remembered = read_mesh(settings.state.mesh_file) or MeshRecord()
        end_leftovers(remembered, LEFTOVER_GRACE_S)
        check_public_ports(settings)
        ports = assign_ports(port_names(settings.mesh), remembered.ports)
        servers = plan_servers(settings.mesh, settings.state, ports, kv_budget_mb=settings.kv_budget_mb)
        record = MeshRecord(
            token=remembered.token,
            ports={**remembered.ports, **ports},
            grpc_address=settings.grpc_address,
            http_address=settings.http_address,
            ledger_url=servers.ledger_url,
            kv_url=servers.kv_url,
            kafka_bootstrap=servers.kafka_bootstrap,
            default_model=settings.mesh.default_model,
            config=str(settings.config_path or ""),
        )
        asyncio.run(_supervise(settings, plan(settings, servers, ports, record.token), record))


async def _supervise(settings: MeshSettings, specs: list[ProcessSpec], record: MeshRecord) -> None:
    supervisor = Supervisor(
        specs,
        state=settings.state,
        record=record,
        settings=settings.supervisor,
        drain_grace_s=settings.mesh.drain_grace_s,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, supervisor.request_stop)
    await supervisor.run()
