"""Required values that are missing, where the source has exactly one that can stand there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from services.corrector.form.edits import ABSENT, Guess, Record
from services.corrector.form.shape import Shape
from services.corrector.form.source import Said, Source
from services.corrector.form.values import is_number, same
from stagemesh.validation.anchors import Keys
from stagemesh.validation.pointer import Path, replaced

MAX_ANCHOR_KEYS = 20_000
MIN_PART_CHARS = 5
"""Digits of a number that are taken for a part of a longer text."""
LABELLED, TYPED, NUMBER = 0.85, 0.8, 0.65


@dataclass(frozen=True)
class Gap:
    path: Path
    shape: Shape
    about: str
    """The name of the field, its title and its description."""
    keys: Keys | None
    present: Any = ABSENT
    """What stands there and cannot be it."""


def filled(value: Any, gaps: list[Gap], source: Source, record: Record) -> Any:
    """The value with its gaps filled, as far as each has one candidate that is used nowhere else."""
    used = list(_scalars(value))
    offers = [(gap, _unused(_candidates(gap, source), used)) for gap in gaps]
    for gap, candidates in offers:
        rivals = [other for other, theirs in offers if other is not gap and _overlap(candidates, theirs)]
        guess = _guess(gap, candidates, source, alone=not rivals)
        if guess is None:
            if gap.present is not ABSENT:
                record.doubt(gap.path, "nothing determines this value")
            continue
        value = _put(value, gap, record.propose(gap.path, gap.present, guess), applied=record.edits[-1].applied)
    return value


def _guess(gap: Gap, candidates: list[Said], source: Source, *, alone: bool) -> Guess | None:
    labelled = [said for said in candidates if source.is_labelled(said, gap.about, candidates)]
    distinct = {repr(said.value): said for said in labelled}
    if len(distinct) == 1:
        said = next(iter(distinct.values()))
        return Guess(said.value, "the value that the source gives for this field", LABELLED, "source")
    distinct = {repr(said.value): said for said in candidates}
    if len(distinct) != 1 or not alone:
        return None
    said = next(iter(distinct.values()))
    confidence = NUMBER if is_number(said.value) else TYPED
    return Guess(said.value, "the only value in the source that can stand here", confidence, "source")


def _candidates(gap: Gap, source: Source) -> list[Said]:
    if not source:
        return []
    if gap.keys is not None and len(gap.keys) <= MAX_ANCHOR_KEYS:
        return [said for said in source.keys(gap.keys.some(MAX_ANCHOR_KEYS)) if gap.shape.accepts(said.value)]
    return source.candidates(gap.shape)


def _unused(candidates: list[Said], used: list[Any]) -> list[Said]:
    """Without what another field has taken, be it as a part of a longer text (a telephone number)."""
    texts = [value for value in used if isinstance(value, str)]
    return [
        said
        for said in candidates
        if not any(same(said.value, value) for value in used)
        and not (is_number(said.value) and any(_is_part(str(said.value), text) for text in texts))
    ]


def _is_part(digits: str, text: str) -> bool:
    return len(digits) >= MIN_PART_CHARS and digits in text


def _overlap(left: list[Said], right: list[Said]) -> bool:
    return any(same(one.value, other.value) for one in left for other in right)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item)
    else:
        yield value


def _put(value: Any, gap: Gap, new: Any, *, applied: bool) -> Any:
    """The value with `new` at the gap; a missing member is added."""
    if not applied:
        return value
    if gap.present is not ABSENT:
        return replaced(value, gap.path, new)
    parent = value
    for name in gap.path[:-1]:
        parent = parent[name]
    return replaced(value, gap.path[:-1], {**parent, gap.path[-1]: new}) if isinstance(parent, dict) else value
