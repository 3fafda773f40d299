"""Looks at how long the present step takes: says when it is over its time, and ends a process that never comes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

FACTOR = 10.0
"""How many times what a step like it took lately a step may take, on top of the fixed time."""
FEW_ROWS = 32
"""Up to so many rows a step takes about as long as with one."""
SMOOTHING = 0.2
LOOK_S = 0.25


@dataclass(frozen=True, kw_only=True)
class WatchdogLimits:
    step_timeout_s: float
    """From which on a step is over its time, besides FACTOR times what its rows usually take."""
    exit_after_s: float
    """How much later the process ends; 0: never."""


def end_process() -> None:
    """The supervisor starts it again, and other engines go on with its sequences meanwhile."""
    os.kill(os.getpid(), signal.SIGKILL)


class Watchdog:
    """`begin` and `end` are called by the step loop; two writes each."""

    def __init__(self, limits: WatchdogLimits, end_process: Callable[[], None] = end_process) -> None:
        self._limits, self._end_process = limits, end_process
        self._began_s = 0.0
        self._limit_s = 0.0
        self._few_s = self._row_s = 0.0
        self._stopped = threading.Event()
        self.over_time = threading.Event()
        """Set while a step is over its time."""
        self._thread = threading.Thread(target=self._watch, name="engine-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def begin(self, num_rows: int) -> None:
        """A step of so many rows begins."""
        self._limit_s = self._limits.step_timeout_s + FACTOR * self._expected_s(num_rows)
        self._began_s = time.monotonic()

    def end(self, num_rows: int, *, was_disturbed: bool = False) -> None:
        """The step ended; one that was disturbed tells nothing of how long steps take."""
        seconds = time.monotonic() - self._began_s
        self._began_s = 0.0
        if self.over_time.is_set():
            self.over_time.clear()
        elif not was_disturbed and num_rows <= FEW_ROWS:
            self._few_s += (SMOOTHING if self._few_s else 1.0) * (seconds - self._few_s)
        elif not was_disturbed:
            row_s = seconds / num_rows
            self._row_s += (SMOOTHING if self._row_s else 1.0) * (row_s - self._row_s)

    def _expected_s(self, num_rows: int) -> float:
        if num_rows <= FEW_ROWS:
            return self._few_s
        return max(self._few_s, num_rows * (self._row_s or self._few_s))

    def look(self) -> None:
        """What the thread does every LOOK_S."""
        began_s = self._began_s
        if not began_s:
            return
        taken_s = time.monotonic() - began_s
        if taken_s > self._limit_s and not self.over_time.is_set():
            log.error("step over its time", seconds=round(taken_s, 1), limit_s=round(self._limit_s, 1))
            self.over_time.set()
            if self._began_s != began_s:  # it ended at this moment
                self.over_time.clear()
        if self._limits.exit_after_s and taken_s > self._limit_s + self._limits.exit_after_s:
            log.critical("the step does not come back, the process ends", seconds=round(taken_s, 1))
            self._end_process()

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self.look()
