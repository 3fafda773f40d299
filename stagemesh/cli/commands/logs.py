"""`stagemesh logs`"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from stagemesh.cli.exits import CommandError, Exit, until_interrupted
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.supervisor.log_file import last_lines
from stagemesh.cli.supervisor.state_dir import StateDir, locate_state

POLL_INTERVAL_S = 0.2


@click.command("logs")
@click.argument("service")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.option("-n", "--lines", "num_lines", type=click.IntRange(0), default=50, show_default=True, help="Last lines.")
@state_option
def command(service: str, follow: bool, num_lines: int, state: Path | None) -> None:
    """Show the log of SERVICE: a name from `stagemesh status`, or `supervisor`.

    `engine` stands for `engine-1` where there is no process of that very name.
    """
    path = find_log(locate_state(state), service)
    with until_interrupted():
        for line in last_lines(path, num_lines):
            click.echo(line)
        if follow:
            for text in follow_file(path):
                click.echo(text, nl=False)


def find_log(state: StateDir, service: str) -> Path:
    """The log of a process. Raises CommandError that names those there are."""
    for name in (service, f"{service}-1"):
        if "/" not in name and state.log_of(name).exists():
            return state.log_of(name)
    known = ", ".join(sorted(path.stem for path in state.logs.glob("*.log"))) if state.logs.is_dir() else ""
    if not known:
        raise CommandError(f"there are no logs in {state.logs}; `stagemesh up` starts a mesh", Exit.UNREACHABLE)
    raise CommandError(f"there is no log of {service!r}; there are {known}", Exit.USAGE)


def follow_file(path: Path) -> Iterator[str]:
    """What is appended from now on, across rotations. Never ends by itself."""
    file = path.open("rb")
    file.seek(0, 2)
    while True:
        if data := file.read(65_536):
            yield data.decode("utf-8", errors="replace")
            continue
        if not path.exists() or path.stat().st_ino == _inode(file.fileno()):
            time.sleep(POLL_INTERVAL_S)
            continue
        file.close()  # it was rotated and is read to its end
        file = path.open("rb")


def _inode(descriptor: int) -> int:
    import os

    return os.fstat(descriptor).st_ino
