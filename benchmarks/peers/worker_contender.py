"""A contender that runs in a worker process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.peers.case import Case, Measurement
from benchmarks.peers.worker import Worker


@dataclass(kw_only=True)
class WorkerContender:
    """Keeps one worker; a case with another number of threads replaces it."""

    name: str
    family: str
    install: Callable[[], None]
    versions: Callable[[], dict[str, str]]
    start: Callable[[int], Worker]
    """A worker, loaded, with so many threads. Raises PeerError."""
    _worker: Worker | None = field(default=None, init=False)
    _threads: int = field(default=0, init=False)

    def measure(self, case: Case, threads: int) -> Measurement:
        if self._worker is None or self._threads != threads:
            self.close()
            self._worker, self._threads = self.start(threads), threads
        return self._worker.measure(case)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
