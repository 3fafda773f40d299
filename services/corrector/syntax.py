"""From a text that should be JSON to JSON, without a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import json_repair

from services.corrector.changes import FIRST_OF_SEVERAL, FORM, SYNTAX, TRUNCATED
from services.corrector.extract import Found, candidates
from stagemesh.validation.json_text import BadJson, dump, is_deeper, parse

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Repaired:
    text: str
    """Strict JSON."""
    reason: str
    confidence: float


class _Conflict(Exception):
    """A name stands for two different values; choosing one would be a guess."""


def repairs(text: str, *, max_depth: int) -> Iterator[Repaired]:
    """Strict JSON texts that `text` may stand for, the likeliest first."""
    for found in candidates(text):
        if is_deeper(found.text, max_depth):
            continue
        try:
            repaired = _as_it_is(found, max_depth) or _mended(found, max_depth)
        except _Conflict:
            continue
        if repaired is not None:
            yield repaired


def _as_it_is(found: Found, max_depth: int) -> Repaired | None:
    """JSON that needs no mending, but for members that stand twice."""
    text, reason, confidence = found.text, "what stood around the JSON was removed", FORM
    try:
        parse(text, max_depth=max_depth)
    except BadJson as error:
        if any(issue.rule != "json.duplicate" for issue in error.issues):
            return None
        text, reason = _without_equal_members(text), "a member that stood twice was left out once"
    if found.several:
        reason, confidence = "one of several JSON values was taken", FIRST_OF_SEVERAL
    return Repaired(text=text, reason=reason, confidence=confidence)


def _mended(found: Found, max_depth: int) -> Repaired | None:
    try:
        value: Any = json_repair.repair_json(found.text, return_objects=True, skip_json_loads=True)
        text = dump(value)
        parse(text, max_depth=max_depth)
    except (ValueError, RecursionError, BadJson):  # NaN and infinity are no JSON; nothing sure can stand for them
        return None
    if not isinstance(value, dict | list) or not _numbers(value) <= _written_numbers(found.text):
        return None
    if found.cut:
        return Repaired(text=text, reason="truncated: the text ends before its JSON does", confidence=TRUNCATED)
    confidence = FIRST_OF_SEVERAL if found.several else SYNTAX
    return Repaired(text=text, reason="the JSON's punctuation was repaired", confidence=confidence)


def _without_equal_members(text: str) -> str:
    """A JSON text without repeated members that are equal. Raises _Conflict where they are not."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result and dump(result[key]) != dump(value):
                raise _Conflict
            result[key] = value
        return result

    return dump(json.loads(text, object_pairs_hook=members, parse_float=Decimal))


def _numbers(value: Any) -> set[Decimal]:
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return set().union(*map(_numbers, children))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {Decimal(repr(value))} if is_number else set()


def _written_numbers(text: str) -> set[Decimal]:
    """Every number that the text spells, so that a repair cannot alter a digit unseen."""
    return {Decimal(match[0]) for match in _NUMBER.finditer(text)}
