"""Run a command to its end and tell its output and its highest resident memory."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.cache import last_line
from benchmarks.peers.contender import PeerError


def run_measured(command: Sequence[str], log: Path, timeout_s: float) -> tuple[str, float]:
    """stdout, and peak resident megabytes; stderr goes into `log`. Raises PeerError with its last line."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        process.kill()
        raise
    finally:
        timer.cancel()
    if process.returncode != 0:
        raise PeerError(f"{last_line(log)} (exit status {process.returncode})")
    return output, usage.ru_maxrss * 1024 / 1e6
