"""`--config FILE` for commands that read the mesh's configuration without starting it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stagemesh.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from stagemesh.runtime.mesh_config import MeshConfig


def config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--config`, as all commands have it."""
    return click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), help="stagemesh.yaml. [default: $STAGEMESH_CONFIG]"
    )(function)


def read_mesh_config(path: Path | None) -> MeshConfig:
    """The shared part of the configuration. Raises CommandError that names the bad key and its place."""
    from stagemesh.runtime.config import ConfigError, read_source
    from stagemesh.runtime.mesh_config import MeshConfig

    try:
        return read_source(path).shared(MeshConfig)
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from None
