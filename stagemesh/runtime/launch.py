"""The start of every service process: configuration, logging, event loop; a bad configuration ends it with 78."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvloop

from stagemesh.runtime.config import ConfigError, Section, read_source
from stagemesh.runtime.errors import die
from stagemesh.runtime.faults.board import board
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import Service, serve
from stagemesh.runtime.telemetry import configure_logging

Config = TypeVar("Config", bound=Section)


def launch(
    name: str,
    section: type[Config],
    compose: Callable[[MeshConfig, Config], Awaitable[Service]],
    address: Callable[[MeshConfig, Config], str],
    *,
    option: str = "",
    public: bool = False,
) -> None:
    """Run the service `name` until it is told to stop.

    `section` is its configuration model, `compose` makes it inside the event loop, `address` says where it listens.
    `option` is what a taken port is changed with. A public service takes calls without the mesh token.
    """
    option = option or f"{name}.listen (STAGEMESH_{name.upper()}__LISTEN)"

    async def main(mesh: MeshConfig, config: Config) -> None:
        await serve(await compose(mesh, config), mesh, address(mesh, config), option=option, public=public)

    try:
        source = read_source()
        mesh, config = source.shared(MeshConfig), source.section(name, section)
        configure_logging(instance=process_identity(name).instance, level=mesh.log_level)
        if mesh.environment != "production":
            board.open([rule.fault() for rule in mesh.faults])
        uvloop.run(main(mesh, config))
    except ConfigError as error:
        die(str(error))
