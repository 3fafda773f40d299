"""How a long operation on models tells where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Step = Literal["wait", "find", "download", "unpack", "verify"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    step: Step
    """`wait`: another pull of the same model is running."""
    done_bytes: int = 0
    total_bytes: int = 0
    """0 while unknown."""


OnProgress = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """For callers that do not watch."""
