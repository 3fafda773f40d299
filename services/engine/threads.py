"""How many compute threads this process should use."""

from __future__ import annotations

import os
from pathlib import Path

CPU_FOLDER = Path("/sys/devices/system/cpu")


def num_physical_cores() -> int:
    """Physical cores among the processors that this process may run on; at least 1."""
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # macOS has no affinity; Apple's processors have no sibling threads
        return os.cpu_count() or 1
    cores = {_siblings(processor) for processor in usable}
    return max(1, len(cores))


def _siblings(processor: int) -> str:
    """What the processors of one core have in common; the processor itself where the system does not say."""
    try:
        return (CPU_FOLDER / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(processor)
