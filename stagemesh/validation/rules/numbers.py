"""Numbers: exact values of JSON numbers, and how far they may be from what they should be."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

from stagemesh.validation.rules.places import invalid

EXACT = Context(prec=2_000)
"""Enough for sums of all numbers that a text may hold (`json_text.MAX_NUMBER_CHARS`)."""


def number_of(value: Any) -> Decimal | None:
    """The value of a JSON number, as it is written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def total(numbers: list[Decimal]) -> Decimal:
    found = Decimal(0)
    for number in numbers:
        found = EXACT.add(found, number)
    return found


def product(numbers: list[Decimal]) -> Decimal:
    found = Decimal(1)
    for number in numbers:
        found = EXACT.multiply(found, number)
    return found


class Tolerance:
    """`{"abs": 0.01, "rel": 0.001}`: whichever allows more."""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._abs, self._rel = (_share(fields.get(name, 0.0), f"{field}.{name}") for name in ("abs", "rel"))

    def allows(self, found: Decimal, wanted: Decimal) -> bool:
        allowed = max(self._abs, EXACT.multiply(self._rel, EXACT.abs(wanted)))
        return EXACT.abs(EXACT.subtract(found, wanted)) <= allowed

    def __str__(self) -> str:
        """` within 0.01`, or nothing."""
        parts = [plain(self._abs)] if self._abs else []
        parts += [f"{plain(self._rel * 100)} %"] if self._rel else []
        return f" within {' or '.join(parts)}" if parts else ""


def finite(value: Any, field: str) -> Decimal:
    """A number of a rule. Raises Refusal INVALID_RULE."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise invalid(field, "must be a number")
    return Decimal(repr(value))


def plain(number: Decimal) -> str:
    """Digits without an exponent, where that is not long."""
    text = format(EXACT.normalize(number), "f")
    return text if len(text) <= 40 else str(number)[:40]


def _share(value: Any, field: str) -> Decimal:
    number = finite(value, field)
    if number < 0:
        raise invalid(field, "must not be negative")
    return number
