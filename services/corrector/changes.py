"""What a correction changed, and how sure it is. Two thresholds divide the scale.

| confidence | change |
|---|---|
| from `CERTAIN` on | only one reading makes sense: width, quotes, `"12,000.50"` → `12000.5`, a key one letter away |
| from the request's threshold on | applied, but not certain: `1.234`, a text that was cut off, one of several objects |
| below | told, not applied |

The numbers are judgements, checked by `benchmarks/correction.py`: of what it calls certain, nothing may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from stagemesh.validation.json_text import dump
from stagemesh.validation.pointer import Path, to_pointer

CERTAIN = 0.8
"""A correction is certain if all its changes are at least this sure."""
MIN_CONFIDENCE = 0.5
"""Changes below this are told, not applied, where a request sets no threshold."""

FORM = 0.95
SPELLING = 0.9
LIBRARY = 0.6
"""A text that only the repair library could read: it guesses without saying so."""
REGENERATED = 0.5
"""A value that was at fault, regenerated."""
UNASKED = 0.2
"""A value that the regeneration changed although nothing was said against it."""

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
    """`extract`, `syntax`, `schema`, `key`, `anchor`, `source`, `content` or `regenerate`."""
    applied: bool = True
    """False for what was too unsure to be done."""


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
