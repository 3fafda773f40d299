"""Arrays: their items, single values where an array is asked for, and rows of the wrong length."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from services.corrector.form.edits import Guess
from services.corrector.form.embedded import json_within
from services.corrector.form.scalars import scalar_guesses
from services.corrector.form.shape import Shape
from services.corrector.form.tables import row_guess
from services.corrector.form.values import Word
from services.corrector.form.wrappers import is_alone, scalar_within, score, unwrapped
from stagemesh.validation.pointer import Path

if TYPE_CHECKING:
    from services.corrector.form.settle import Settler

_SEPARATORS = re.compile(r"\s*[,，、;；|\n]\s*")
MAX_PARTS = 200


class ArrayFit:
    def __init__(self, settler: Settler, shape: Shape, path: Path) -> None:
        self._settler, self._shape, self._path = settler, shape, path

    def settle(self, items: list[Any]) -> list[Any]:
        items = self._unwrapped(items)
        if not isinstance(items, list):
            return self._settler.settle(items, self._shape, self._path)
        shapes = self._settler.shapes
        items = self._as_rows(items, shapes.of(self._shape.items(0)))
        settled = []
        for index, item in enumerate(items):
            shape = shapes.of(self._shape.items(index))
            path = (*self._path, index)
            if isinstance(item, list) and (guess := self._row(item, shape)):
                item = self._settler.propose(path, item, guess)
            settled.append(self._settler.settle(item, shape, path))
        return settled

    def _unwrapped(self, items: list[Any]) -> Any:
        """The inner array of `[[…]]`, where its items are asked for."""
        if len(items) == 1 and isinstance(items[0], list):
            item = self._settler.shapes.of(self._shape.items(0))
            if "array" not in item.types:
                return self._settler.propose(self._path, items, Guess(items[0], "an array within an array", 0.85))
        return items

    def _as_rows(self, items: list[Any], row: Shape) -> list[Any]:
        """`[1, 2]` where an array of arrays is asked for: one row of two cells, or two of one."""
        if len(items) < 2 or row.types != {"array"} or any(isinstance(item, dict | list) for item in items):
            return items
        width = row_width(row)
        if width == len(items):
            done = self._settler.propose(self._path, items, Guess([items], "a row without the array around it", 0.85))
            return done if isinstance(done, list) else items
        if width != 1:
            self._settler.record.doubt(self._path, "it may be one row, or several")
        return items

    def _row(self, row: list[Any], shape: Shape) -> Guess | None:
        width = row_width(shape)
        if width is None or len(row) == width:
            return None
        if len(row) < width:
            self._settler.record.doubt(self._path, "a row of the table is too short, and nothing says what it lacks")
            return None
        return row_guess(
            row, width, lambda cells: all(self._fits(cell, shape.items(i)) for i, cell in enumerate(cells))
        )

    def _fits(self, cell: Any, schema: Any) -> bool:
        shape = self._settler.shapes.of(schema)
        return (not isinstance(cell, Word) and shape.accepts(cell)) or bool(scalar_guesses(cell, shape, ""))

    def guess_from(self, value: Any) -> Guess | None:
        """An array made of a value that is none."""
        item = self._settler.shapes.of(self._shape.items(0))
        if isinstance(value, dict):
            return self._from_object(value, item)
        if value is None:
            return Guess([], "nothing, where an array is asked for", 0.5)
        if isinstance(value, str):
            inner = json_within(value)
            if isinstance(inner, list) or (isinstance(inner, dict) and "object" in item.types):
                return Guess(inner if isinstance(inner, list) else [inner], "JSON that was written as a text", 0.85)
            return self._from_text(value, item)
        return (
            Guess([value], "a single value where an array is asked for", 0.85)
            if self._fits(value, self._shape.items(0))
            else None
        )

    def _from_object(self, value: dict[str, Any], item: Shape) -> Guess | None:
        if value and all(key.isdigit() for key in value):
            ordered = [value[key] for key in sorted(value, key=int)]
            return Guess(ordered, "an object whose names are positions", 0.85)
        if "object" in item.types and (score(value, item) or not item.properties):
            inner = unwrapped(value, self._shape, self._settler.shapes) if not score(value, item) else None
            return inner or Guess([value], "a single object where an array is asked for", 0.85)
        return unwrapped(value, self._shape, self._settler.shapes)

    def _from_text(self, text: str, item: Shape) -> Guess | None:
        schema = self._shape.items(0)
        parts = [part for part in _SEPARATORS.split(text.strip().strip("[]")) if part]
        if 1 < len(parts) <= MAX_PARTS and all(self._fits(part, schema) for part in parts):
            is_listed = item.enum is not None or item.types <= {"number", "integer"} or "pattern" in item.keywords
            keys = self._settler.anchors.at((*self._path, 0))
            confidence = 0.8 if is_listed or keys is not None else 0.65
            return Guess(parts, "a list that was written as one text", confidence)
        if not text.strip():
            return Guess([], "an empty text where an array is asked for", 0.65)
        return Guess([text], "a single value where an array is asked for", 0.85) if self._fits(text, schema) else None

    def scalar_from(self, value: Any) -> Guess | None:
        inner = scalar_within(value)
        return (
            None
            if inner is None
            else Guess(inner, "a single value in an array or object", 0.82 if is_alone(value) else 0.6)
        )


def row_width(shape: Shape) -> int | None:
    """The number of cells of a row, if its schema fixes it."""
    most = shape.keywords.get("maxItems")
    prefix = shape.keywords.get("prefixItems")
    if isinstance(most, int) and most == shape.keywords.get("minItems"):
        return most
    if isinstance(prefix, list) and (shape.keywords.get("items") is False or most == len(prefix)):
        return len(prefix)
    return None
