"""`--config FILE` for commands that read the mesh's configuration without starting it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stagemesh.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from stagemesh.runtime.config import Source
    from stagemesh.runtime.mesh_config import MeshConfig

T = TypeVar("T")


def config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--config`, as all commands have it."""
    return click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), help="stagemesh.yaml. [default: $STAGEMESH_CONFIG]"
    )(function)


def read_mesh_config(path: Path | None) -> MeshConfig:
    """The shared part of the configuration. Raises CommandError that names the bad key and its place."""
    from stagemesh.runtime.mesh_config import MeshConfig

    return read_part(path, lambda source: source.shared(MeshConfig))


def read_part(path: Path | None, part: Callable[[Source], T]) -> T:
    """A part of the configuration. Raises CommandError that names the bad key and its place."""
    from stagemesh.runtime.config import ConfigError, read_source

    try:
        return part(read_source(path))
    except ConfigError as error:
        raise CommandError(str(error), Exit.USAGE) from None
