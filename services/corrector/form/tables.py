"""Rows of a table that are longer than their schema or their header allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services.corrector.form.edits import Guess
from services.corrector.form.values import same

EMPTY: tuple[Any, ...] = (None, "", "-", "—")
MAX_CELLS = 64


def row_guess(row: list[Any], width: int, fits: Callable[[list[Any]], bool]) -> Guess | None:
    """A row of `width` cells made of a longer one, where it can be seen which cells are too many."""
    extra = len(row) - width
    if extra <= 0 or len(row) > MAX_CELLS:
        return None
    if all(cell in EMPTY for cell in row[width:]) and fits(row[:width]):
        return Guess(row[:width], "empty cells beyond the table's width", 0.85)
    if extra != 1:
        return None
    shorter = [(index, row[:index] + row[index + 1 :]) for index in range(len(row))]
    fitting = [(index, cells) for index, cells in shorter if fits(cells)]
    if not fitting:
        return None
    index, cells = fitting[0]
    if all(same(cells, other) for _, other in fitting[1:]):
        twice = index + 1 < len(row) and same(row[index], row[index + 1])
        reason = "a cell that stood twice" if twice else "the only cell without which the row fits"
        return Guess(cells, reason, 0.82)
    doubled = [cells for index, cells in fitting if index + 1 < len(row) and same(row[index], row[index + 1])]
    if doubled and all(same(doubled[0], other) for other in doubled[1:]):
        return Guess(doubled[0], "a cell that stood twice", 0.7)
    return Guess(row[:width], "a cell too many, which may be another one", 0.5)


def header_of(members: dict[str, Any]) -> tuple[str, int] | None:
    """The name of an object's rows and how many columns its header has, if it has both."""
    headers = [
        value
        for value in members.values()
        if isinstance(value, list) and value and all(isinstance(cell, str) for cell in value)
    ]
    rows = [
        key
        for key, value in members.items()
        if isinstance(value, list) and value and all(isinstance(row, list) for row in value)
    ]
    named = [
        key for key in ("header", "headers", "columns", "cols", "表头", "列") if isinstance(members.get(key), list)
    ]
    if len(headers) == 1 and len(rows) == 1 and named:
        return rows[0], len(headers[0])
    return None
