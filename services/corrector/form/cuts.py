"""Texts that end before their JSON does: can anything be missing?"""

from __future__ import annotations

from typing import Any

from services.corrector.form.edits import Record
from services.corrector.form.reader import Reading
from services.corrector.form.shape import Shape, Shapes
from stagemesh.validation.pointer import Path


def is_complete(reading: Reading, value: Any, record: Record, shapes: Shapes, root: Shape) -> bool:
    """Whether only closing brackets are missing.

    That is so if every object that was open has all the members that its schema names and may have no others, every
    open array is as long as it may be, and the scalar in which the text ended was completed by what the schema or the
    anchors allow.
    """
    if reading.partial is not None:
        edits = [edit for edit in record.edits if edit.path == reading.partial and edit.applied]
        if not edits or edits[-1].confidence < 0.8:
            return False
    return all(_is_full(value, path, shapes, root) for path in reading.open_paths)


def _is_full(value: Any, path: Path, shapes: Shapes, root: Shape) -> bool:
    found = _at(value, path, shapes, root)
    if found is None:
        return False
    item, shape = found
    if isinstance(item, dict) and shape.properties:
        is_closed = shape.keywords.get("additionalProperties") is False
        return is_closed and all(name in item for name in shape.properties)
    if isinstance(item, list):
        most = shape.keywords.get("maxItems")
        return isinstance(most, int) and len(item) >= most
    return False


def _at(value: Any, path: Path, shapes: Shapes, shape: Shape) -> tuple[Any, Shape] | None:
    """The value at a path with its shape; None where edits have moved it."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str) and step in value:
            value, shape = value[step], shapes.of(shape.properties.get(step, True))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value, shape = value[step], shapes.of(shape.items(step))
        else:
            return None
    return value, shape
