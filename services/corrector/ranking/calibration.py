"""From which probability on an adapter's judgement counts as sure: measured, and kept beside its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CALIBRATION_FILE = "calibration.json"
"""In the adapter's folder."""
NEVER = 2.0
"""No probability reaches it."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    confirm: float = NEVER
    """From here on the present value is confirmed."""
    change: float = NEVER
    """From here on another value is put in its place, or in an empty one."""
    tell: float = 0.7
    """From here on another value is told, and not put there."""


def calibration_of(data: Mapping[str, Any]) -> Calibration:
    """What `calibration.json` says under `ranking`; of what it does not say, or not in numbers, nothing is sure."""
    said = data.get("ranking")
    if not isinstance(said, Mapping):
        return Calibration()

    def threshold(name: str) -> float:
        value = said.get(name, NEVER)
        return float(value) if isinstance(value, int | float) and 0.5 <= value <= 1 else NEVER

    return Calibration(confirm=threshold("confirm"), change=threshold("change"))
