"""The faults that a request brings with it: each happens in its stage, as often as the request says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from stagemesh.runtime.faults.board import board
from stagemesh.runtime.faults.fault import Fault
from stagemesh.runtime.faults.header import HEADER, write_faults
from stagemesh.runtime.faults.strike import strike


@dataclass
class _Left:
    fault: Fault
    times: int
    """How often it may still happen, where that is bounded."""
    rng: random.Random


class RequestFaults:
    """What is left of a request's faults. A fault counts as happened when it is sent to where it happens, so that a
    repeated call meets it no more often than the request says."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._left = [_Left(fault, fault.times, random.Random(fault.seed)) for fault in faults]

    def take(self, *stages: str) -> list[Fault]:
        """Those that happen now in one of `stages`, each once."""
        taken = []
        for left in self._left:
            may = left.fault.stage in stages and (left.times > 0 or left.fault.times == 0)
            if may and left.rng.random() < left.fault.rate:
                left.times -= 1
                taken.append(left.fault)
        return taken


request_faults: ContextVar[RequestFaults | None] = ContextVar("request_faults", default=None)
"""Of the request that is worked on; None: it has none, as nearly always."""


def outgoing(*stages: str) -> tuple[tuple[str, str], ...]:
    """Metadata of a call that runs `stages` elsewhere."""
    faults = request_faults.get()
    if faults is None or not (taken := faults.take(*stages)):
        return ()
    return ((HEADER, write_faults(taken)),)


async def at_stage(stage: str) -> None:
    """Here `stage` begins, in this process: what is to go wrong does."""
    if board.is_armed and (fault := board.draw(stage)) is not None:
        await strike(fault)
    if (faults := request_faults.get()) is not None:
        for fault in faults.take(stage):
            await strike(fault)
