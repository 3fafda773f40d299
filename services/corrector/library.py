"""The repair library as a last resort, with its silent guesses caught."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import json_repair

from stagemesh.validation.json_text import BadJson, dump, is_deeper, parse

MAX_CHARS = 20_000
"""Of longer texts the library takes more than linear time."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def read_by_library(text: str) -> str | None:
    """JSON of an object or array; None where the library fails, or says numbers that the text does not."""
    if len(text) > MAX_CHARS or is_deeper(text, 100):
        return None
    try:
        value: Any = json_repair.repair_json(text, return_objects=True, skip_json_loads=True)
        repaired = dump(value)
        parse(repaired, max_depth=128)
    except (ValueError, RecursionError, BadJson):  # NaN and infinity are no JSON; nothing sure can stand for them
        return None
    if not isinstance(value, dict | list) or not value or not _numbers(value) <= _written_numbers(text):
        return None
    return repaired


def _numbers(value: Any) -> set[Decimal]:
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return set().union(*map(_numbers, children))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {Decimal(repr(value))} if is_number else set()


def _written_numbers(text: str) -> set[Decimal]:
    """Every number that the text spells, so that a repair cannot alter a digit unseen."""
    return {Decimal(match[0]) for match in _NUMBER.finditer(text)}
