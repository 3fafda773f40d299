"""All checks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator

from stagemesh.cli.doctor import engine, machine, network, software
from stagemesh.cli.doctor.finding import Finding, fail
from stagemesh.cli.mesh_access import running_mesh
from stagemesh.cli.supervisor.mesh_settings import read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.state_dir import locate_state
from stagemesh.runtime.config import ConfigError


def run_checks(options: UpOptions) -> Iterator[Finding]:
    """Look at everything that a mesh with these options would meet."""
    yield machine.check_python()
    yield machine.check_platform()
    yield machine.check_processor()
    yield machine.check_memory()
    yield machine.check_disk(locate_state(options.state))
    yield machine.check_clock()
    yield machine.check_open_files()
    yield machine.check_huge_pages()
    try:
        settings = read_settings(options)
    except ConfigError as error:
        yield fail("configuration", str(error), "correct the key that it names")
        return
    yield from engine.check_engine(settings.mesh, settings.config_path)
    yield software.check_state_writable(settings.state.path)
    yield from software.check_models(settings.mesh)
    yield from software.check_embedded(settings.mesh)
    yield from network.check_ports(settings, options, running_mesh(settings.state))
    yield from network.check_redis(settings.mesh)
    yield from network.check_kafka(settings.mesh)
