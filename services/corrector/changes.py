"""What a correction changed, and how sure it is. The numbers are judgements, ordered; they are no probabilities yet.

| confidence | change |
|---|---|
| 0.95 | only the form: what stood around the JSON, a repeated equal member, width and spaces of a key |
| 0.9 | the same text as another type or in another case: `"3"` → `3`, `OPEN` → `open` |
| 0.8 | punctuation of JSON; a key that is one letter away |
| 0.6 | the first of several JSON values was taken |
| 0.5 | a key that is one digit away; a value that the regeneration changed because it was at fault |
| 0.4 | a text that was cut off was closed: its last value may be incomplete |
| 0.2 | a value that the regeneration changed although nothing was said against it |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from stagemesh.validation.json_text import dump
from stagemesh.validation.pointer import Path, to_pointer

FORM = 0.95
SPELLING = 0.9
SYNTAX = 0.8
FIRST_OF_SEVERAL = 0.6
DIGIT = 0.5
REGENERATED = 0.5
TRUNCATED = 0.4
UNASKED = 0.2

MAX_CHANGES = 200
"""More than this are told as one change of the whole."""


@dataclass(frozen=True, kw_only=True)
class Change:
    pointer: str
    """JSON Pointer into the value; empty for the whole text."""
    before: str
    """JSON, or the raw text for the whole of a text that was none; empty for absent."""
    after: str
    reason: str
    confidence: float
    step: str
    """`syntax`, `schema`, `anchor` or `regenerate`."""


def merged(changes: list[Change]) -> list[Change]:
    """One change per pointer: from the first state to the last, as sure as the least sure."""
    by_pointer: dict[str, Change] = {}
    for change in changes:
        first = by_pointer.get(change.pointer)
        by_pointer[change.pointer] = (
            change
            if first is None
            else replace(change, before=first.before, confidence=min(first.confidence, change.confidence))
        )
    return [change for change in by_pointer.values() if change.before != change.after]


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[tuple[Path, str, str]]:
    """Where two values differ: path and the JSON of both sides, empty for absent."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _member(before, after, key, (*path, key), key in before, key in after)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _member(before, after, index, (*path, index), index < len(before), index < len(after))
    elif dump(before) != dump(after):
        yield path, dump(before), dump(after)


def _member(
    before: Any, after: Any, key: Any, path: Path, in_before: bool, in_after: bool
) -> Iterator[tuple[Path, str, str]]:
    if in_before and in_after:
        yield from differences(before[key], after[key], path)
    elif in_before:
        yield path, dump(before[key]), ""
    else:
        yield path, "", dump(after[key])


def whole(before: str, after: str, reason: str, confidence: float, step: str) -> Change:
    return Change(pointer=to_pointer(()), before=before, after=after, reason=reason, confidence=confidence, step=step)
