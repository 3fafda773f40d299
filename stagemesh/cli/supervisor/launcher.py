"""Runs in the child before the service: ask the kernel to end it with its supervisor, then become the service.

python -I -S launcher.py PARENT_PID COMMAND [ARGUMENT …]

Only the standard library is imported, and little of it: this is part of each start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before the request reached the kernel
        raise SystemExit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
