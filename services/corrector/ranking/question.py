"""A field that the rules leave open, and what in the source could be its value. Plain data: it leaves the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.corrector.proposals import ABSENT
from stagemesh.validation.json_text import dump, parse

MAX_DEPTH = 1_000


@dataclass(frozen=True, kw_only=True)
class Candidate:
    value: Any
    """Parsed JSON, of the field's type."""
    words: tuple[str, ...]
    """How the source writes it; several where it does so in several ways."""
    num_places: int
    """Of the source that have it: so many fields may hold it."""
    is_open_ended: bool = False
    """Nothing in the source marks where it ends, so that its end is judged as well."""
    is_barred: bool = False
    """A field that is settled has it, or the source says it of an earlier or another matter: it is never sure."""


@dataclass(frozen=True, kw_only=True)
class Question:
    pointer: str
    name: str
    title: str
    sort: str
    """Of its candidates: those of one sort are shared out among its fields."""
    candidates: tuple[Candidate, ...]
    present: int = -1
    """Which candidate is the present value; -1 where the source has none like it."""
    is_missing: bool = False
    """The object has no value there."""
    may_change: bool = True
    """False where an earlier step put the present value there: what contradicts it makes it doubtful and no more."""


def questions_data(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Values go as JSON texts, so that no digit is lost."""
    return [
        {
            **vars(question),
            "candidates": [
                {**vars(one), "value": dump(one.value), "words": list(one.words)} for one in question.candidates
            ],
        }
        for question in questions
    ]


def questions_from(data: Sequence[Mapping[str, Any]]) -> tuple[Question, ...]:
    return tuple(
        Question(**{**question, "candidates": tuple(map(_candidate, question["candidates"]))}) for question in data
    )


def _candidate(data: Mapping[str, Any]) -> Candidate:
    return Candidate(**{**data, "value": parse(data["value"], max_depth=MAX_DEPTH), "words": tuple(data["words"])})


def key_of(value: Any) -> str:
    """Equal for values that are equal as JSON."""
    if value is ABSENT:
        return ""
    return dump(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else dump(value)
