"""How a fault comes about: as an exception, as time, or as the end of the process."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from stagemesh.runtime.faults.fault import Fault, InjectedFault, Kind
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


async def strike(fault: Fault) -> None:
    """Let the fault happen here. Raises InjectedFault or MemoryError, takes its time, or does not return."""
    log.warning("fault on purpose", stage=fault.stage, kind=str(fault.kind))
    if fault.kind in {Kind.DELAY, Kind.HANG}:
        await asyncio.sleep(fault.wait_s)
    else:
        _break(fault)


def strike_sync(fault: Fault) -> None:
    """As `strike`, in a thread."""
    log.warning("fault on purpose", stage=fault.stage, kind=str(fault.kind))
    if fault.kind in {Kind.DELAY, Kind.HANG}:
        time.sleep(fault.wait_s)
    else:
        _break(fault)


def _break(fault: Fault) -> None:
    match fault.kind:
        case Kind.OOM:
            raise MemoryError(f"{fault.stage}: no memory, on purpose")
        case Kind.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            raise InjectedFault(f"{fault.stage} fails on purpose")
