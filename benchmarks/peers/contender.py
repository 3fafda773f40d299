"""What the comparison needs of an engine: the small interface of the files beside this one."""

from __future__ import annotations

from typing import Protocol

from benchmarks.peers.case import Case, Measurement


class PeerError(Exception):
    """A contender cannot be installed or does not run here; the message is its error's last line."""


class Contender(Protocol):
    """An engine with its weights in one format."""

    @property
    def name(self) -> str:
        """As the tables say it, e.g. `llama.cpp Q4_0`."""

    @property
    def family(self) -> str:
        """The engine's short name, the one of `--peers`."""

    def install(self) -> None:
        """Bring everything into the cache folder, unless it is there; safe to interrupt. Raises PeerError."""

    def versions(self) -> dict[str, str]:
        """Versions of what was installed."""

    def measure(self, case: Case, threads: int) -> Measurement:
        """Run the case once on `threads` pinned cores. Raises PeerError."""

    def close(self) -> None:
        """End its processes."""
