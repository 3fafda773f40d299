"""What an embedded server needs as a child process: a folder of its own, an end with its parent, clear last words."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

EX_TEMPFAIL = 75
"""Exit code of sysexits.h: try again later."""
EX_CONFIG = 78
"""Exit code of sysexits.h: a restart does not help, somebody must act."""

_PR_SET_PDEATHSIG = 1


def fail(message: str, code: int = EX_CONFIG) -> NoReturn:
    """End this process with a sentence on stderr."""
    print(f"stagemesh: {message}", file=sys.stderr, flush=True)  # noqa: T201  last words of a process without logging
    raise SystemExit(code)


def end_with_parent(parent_pid: int) -> None:
    """Have the kernel send SIGTERM to this process when its parent dies; it also holds after exec.

    Only Linux offers this; elsewhere the caller must watch `os.getppid()`. `parent_pid` is the parent at the
    start of the process: if it is gone already, this process ends now.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        raise SystemExit(0)


def lock_folder(folder: Path) -> int:
    """Take the folder for this process and what it becomes by exec; gives the lock's file descriptor.

    Two servers on one folder would destroy each other's files. Ends the process when another one holds the folder.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        fail(f"{folder} is in use by process {holder}; stop that mesh first or choose another --state", EX_TEMPFAIL)
    os.set_inheritable(descriptor, True)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
