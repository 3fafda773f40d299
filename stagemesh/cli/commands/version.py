"""`stagemesh version`"""

from __future__ import annotations

from importlib.metadata import version as installed_version

import click


@click.command("version")
def command() -> None:
    """Print the version."""
    click.echo(installed_version("stagemesh"))
