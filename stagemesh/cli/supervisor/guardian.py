"""Where the kernel cannot end children with their parent (macOS): a process that waits for the supervisor's end.

It reads `+PID` and `-PID` lines from standard input, which the supervisor holds open. When the input ends without a
`.` line, the supervisor died: the process groups that remain get SIGTERM, and SIGKILL after a grace.

python -I -S guardian.py GRACE_S
"""

from __future__ import annotations

import os
import signal
import sys
import time


def follow(lines: list[str] | None = None) -> set[int]:
    """Process IDs that are left when the input ends; none after an orderly stop."""
    left: set[int] = set()
    for line in sys.stdin if lines is None else lines:
        text = line.strip()
        if text == ".":
            return set()
        if text.startswith("+"):
            left.add(int(text[1:]))
        elif text.startswith("-"):
            left.discard(int(text[1:]))
    return left


def send(pids: set[int], number: int) -> set[int]:
    """Signal each process group; gives those that still existed."""
    reached = set()
    for pid in pids:
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
        reached.add(pid)
    return reached


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    left = send(follow(), signal.SIGTERM)
    until = time.monotonic() + float(sys.argv[1])
    while left and time.monotonic() < until:
        time.sleep(0.1)
        left = send(left, 0)
    send(left, signal.SIGKILL)


if __name__ == "__main__":
    main()
