"""Progress of pulls and verifications: a bar on a terminal, a line per step elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from stagemesh.cli import console
from stagemesh.models.progress import OnProgress
from stagemesh.models.progress import Progress as Step

SENTENCES = {
    "wait": "Waiting for another pull of the model",
    "find": "Looking for the model",
    "download": "Downloading",
    "unpack": "Unpacking",
    "verify": "Verifying",
}


@contextmanager
def showing_progress(name: str) -> Iterator[OnProgress]:
    """A callback for `stagemesh.models` that shows what it is told."""
    if console.err.is_terminal:
        yield from _bar(name)
    else:
        yield _lines(name)


def _bar(name: str) -> Iterator[OnProgress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console.err, transient=True) as bars:
        task = bars.add_task(name, total=None)

        def show(step: Step) -> None:
            bars.update(
                task,
                description=f"{SENTENCES[step.step]} {name}",
                completed=step.done_bytes,
                total=step.total_bytes or None,
            )

        yield show


def _lines(name: str) -> OnProgress:
    shown: set[str] = set()

    def show(step: Step) -> None:
        if step.step not in shown:
            shown.add(step.step)
            size = f" ({step.total_bytes / 1e6:.0f} MB)" if step.total_bytes else ""
            console.err.print(f"{SENTENCES[step.step]} {name}{size} …")

    return show
