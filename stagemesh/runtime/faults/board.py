"""The faults that this process has on its board, and the draw of the one that happens now."""

from __future__ import annotations

import random
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from threading import Lock

from stagemesh.runtime.errors import Forbidden, InvalidRequest
from stagemesh.runtime.faults.fault import Fault, Kind

MAX_FAULTS = 64


@dataclass
class Posted:
    """A fault on the board, and how often it has happened."""

    fault: Fault
    num_struck: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.fault.seed)

    def draw(self) -> bool:
        """Whether it happens now."""
        fault = self.fault
        if (fault.times and self.num_struck >= fault.times) or self.rng.random() >= fault.rate:
            return False
        self.num_struck += 1
        return True


class Board:
    """Thread-safe: the engine draws in its own thread."""

    def __init__(self) -> None:
        self.is_allowed = False
        """Whether faults are possible in this process at all."""
        self.is_armed = False
        """Whether there is any; what costs nothing while it is false."""
        self._lock = Lock()
        self._posted: list[Posted] = []

    def open(self, faults: Sequence[Fault]) -> None:
        """Allow faults from now on, and post those of the configuration."""
        self.is_allowed = True
        for fault in faults:
            self.post(fault)

    def close(self) -> None:
        """Refuse faults from now on."""
        self.clear()
        self.is_allowed = False

    def check_allowed(self) -> None:
        """Raises Forbidden."""
        if not self.is_allowed:
            raise Forbidden("FAULTS_REFUSED", "faults on purpose are refused where `environment` is `production`")

    def post(self, fault: Fault) -> None:
        """Raises Forbidden where faults are refused, InvalidRequest where the board is full."""
        self.check_allowed()
        with self._lock:
            if len(self._posted) >= MAX_FAULTS:
                raise InvalidRequest("INVALID_FAULT", f"{MAX_FAULTS} faults are posted already; clear them first")
            self._posted.append(Posted(fault))
            self.is_armed = True

    def clear(self, stage: str = "") -> int:
        """Take down all faults, or those of one stage; gives their number."""
        with self._lock:
            kept = [posted for posted in self._posted if stage and posted.fault.stage != stage]
            num_cleared = len(self._posted) - len(kept)
            self._posted, self.is_armed = kept, bool(kept)
        return num_cleared

    def posted(self) -> Sequence[Posted]:
        with self._lock:
            return tuple(self._posted)

    def draw(self, *stages: str, kinds: Container[Kind] = tuple(Kind)) -> Fault | None:
        """The fault that happens now in one of `stages`, of one of `kinds`, the first posted first."""
        if not self.is_armed:
            return None
        with self._lock:
            able = (posted for posted in self._posted if posted.fault.stage in stages and posted.fault.kind in kinds)
            return next((posted.fault for posted in able if posted.draw()), None)


board = Board()
"""This process's."""
