"""JSON that was written as a text within JSON."""

from __future__ import annotations

from typing import Any

from services.corrector.form.reader import TooDeep, read
from services.corrector.form.values import Word
from stagemesh.validation.json_text import BadJson, parse

MAX_CHARS = 200_000


def json_within(text: str) -> Any:
    """The object or array that a text spells; None for other texts."""
    bare = text.strip()
    if isinstance(text, Word) or not bare or bare[0] not in '{["' or len(bare) > MAX_CHARS:
        return None
    try:
        value = parse(bare, max_depth=64)
    except BadJson:
        return _leniently(bare)
    if isinstance(value, str) and value != text:
        return json_within(value)
    return value if isinstance(value, dict | list) else None


def _leniently(text: str) -> Any:
    """Only what needs little mending: a text may well begin with a bracket."""
    if text[0] == '"' or text[-1] not in "}]":
        return None
    try:
        reading = read(
            text.replace('\\"', '"') if '\\"' in text and '"' not in text.replace('\\"', "") else text, max_depth=64
        )
    except TooDeep:
        return None
    is_sure = not reading.cut and not reading.several and reading.end >= len(text) - 2
    return reading.value if is_sure and min(reading.notes.values(), default=1.0) >= 0.8 else None
