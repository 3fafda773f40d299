"""One supervisor per state folder: a file lock that the kernel frees when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from stagemesh.cli.supervisor.state_dir import StateDir


class AlreadyRunning(Exception):
    """Another supervisor holds the state folder."""


@contextmanager
def hold(state: StateDir) -> Iterator[None]:
    """Hold the state folder. Raises AlreadyRunning with a sentence."""
    with state.lock_file.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"a mesh with the state folder {state.path} is running; "
                "`stagemesh down` stops it, `--state DIR` starts another one beside it"
            ) from None
        os.set_inheritable(file.fileno(), False)
        yield


def is_held(state: StateDir) -> bool:
    """Whether a supervisor runs on the state folder."""
    try:
        with hold(state):
            return False
    except AlreadyRunning:
        return True
    except FileNotFoundError:
        return False
