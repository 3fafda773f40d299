"""What a lenient reading holds besides plain JSON values, until the schema settles it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from stagemesh.validation.json_text import MAX_NUMBER_CHARS


class Word(str):
    """A scalar that stood without quotes and is no JSON literal: `None`, `0x1F`, `Berlin`, `12,000.50`."""

    __slots__ = ()


class Several:
    """The different values that one name stands for in one object, in order."""

    __slots__ = ("values",)

    def __init__(self, values: list[Any]) -> None:
        self.values = values


def number_of(text: str) -> int | float | Decimal | None:
    """The number of a JSON literal, with its digits kept; None where it is beyond what JSON numbers hold."""
    if len(text) > MAX_NUMBER_CHARS:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    if math.isinf(number):
        return None
    return number if repr(number) == text else Decimal(text)


def plain_number(number: Decimal) -> int | float | Decimal:
    """The number as the JSON parser would give it: whole ones as `int`."""
    if number == number.to_integral_value() and abs(number) < Decimal(10) ** 30:
        return int(number)
    exact = float(number)
    return exact if Decimal(repr(exact)) == number else number


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def same(left: Any, right: Any) -> bool:
    """Equal as JSON, and of one type; a bare word is none of the types."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if is_number(left) and is_number(right):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)
