"""A table in JSON: an array of arrays or of objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stagemesh.validation.json_text import BadJson, dump, parse
from stagemesh.validation.pointer import Path, to_pointer
from stagemesh.validation.rules.numbers import number_of
from stagemesh.validation.rules.places import Budget, TooMany, invalid, names_of
from stagemesh.validation.sentences import listed, quoted, type_of
from stagemesh.validation.verdict import Issue

MAX_COLUMNS = 256
MAX_ROWS_TOLD = 50
"""Issues of one table."""


class TableCheck:
    """`{"pointer", "header": [...], "numeric": [...], "first_row_is_header"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._names = names_of(fields.get("pointer", ""), f"{field}.pointer")
        self._header: list[str] = list(fields.get("header", ()))
        self._numeric: list[str] = list(fields.get("numeric", ()))
        self._first_row_is_header = bool(fields.get("first_row_is_header", False))
        if max(len(self._header), len(self._numeric)) > MAX_COLUMNS:
            raise invalid(f"{field}.header", f"a table may have {MAX_COLUMNS} columns")
        if len(set(self._header)) < len(self._header):
            raise invalid(f"{field}.header", "names of columns must differ")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found: list[Issue] = []
        for path, table in budget.find(value, self._names):
            found += self._issues(path, table, budget)[:MAX_ROWS_TOLD]
        return found

    def _issues(self, path: Path, table: Any, budget: Budget) -> list[Issue]:
        if table is None:
            return []
        if not isinstance(table, list):
            return [_issue(path, "table", f"must be a table, an array of rows, but is of type {type_of(table)}")]
        if len(table) > budget.num_values:
            raise TooMany
        kinds = {type(row) for row in table}
        if kinds <= {dict}:
            return self._objects(path, table)
        if kinds == {list}:
            return self._arrays(path, table)
        return [_issue(path, "table", "must have rows of one kind, all arrays or all objects")]

    def _objects(self, path: Path, rows: list[dict[str, Any]]) -> list[Issue]:
        found: list[Issue] = []
        wanted = self._header or (list(rows[0]) if rows else [])
        for index, row in enumerate(rows):
            missing = [name for name in wanted if name not in row]
            more = [name for name in row if name not in wanted]
            if missing:
                found.append(_issue((*path, index), "table.columns", f"lacks the columns {listed(missing, 'and')}"))
            if more:
                what = "the header" if self._header else "the first row"
                message = f"has the columns {listed(more, 'and')}, which {what} has not"
                found.append(_issue((*path, index), "table.columns", message))
            found += _numeric_issues((*path, index), ((name, row[name]) for name in self._numeric if name in row))
            if len(found) >= MAX_ROWS_TOLD:
                break
        return found

    def _arrays(self, path: Path, rows: list[list[Any]]) -> list[Issue]:
        found: list[Issue] = []
        header: list[Any] = rows[0] if self._first_row_is_header else self._header
        if self._first_row_is_header and self._header and rows[0] != self._header:
            message = f"must be the header {quoted(self._header)}, but is {quoted(rows[0])}"
            found.append(_issue((*path, 0), "table.header", message))
        width = len(self._header or rows[0])
        numeric = [self._column(name, header) for name in self._numeric]
        for index, row in enumerate(rows):
            if len(row) != width:
                what = "the header" if self._header or self._first_row_is_header else "the first row"
                message = f"has {len(row)} cells, but {what} has {width}"
                found.append(_issue((*path, index), "table.length", message))
                continue  # which cell stands in which column is not known
            if index == 0 and self._first_row_is_header:
                continue
            columns = (column for column in numeric if column is not None and column < width)
            found += _numeric_issues((*path, index), ((column, row[column]) for column in columns))
            if len(found) >= MAX_ROWS_TOLD:
                break
        missing = [
            name for name, column in zip(self._numeric, numeric, strict=True) if column is None or column >= width
        ]
        return found + [_issue(path, "table.header", f"has no column {quoted(name)}") for name in missing]

    def _column(self, name: str, header: list[Any]) -> int | None:
        if name in header:
            return header.index(name)
        return int(name) - 1 if name.isdecimal() and len(name) <= 4 and int(name) > 0 else None


def _numeric_issues(path: Path, cells: Iterable[tuple[str | int, Any]]) -> list[Issue]:
    issues = (_not_numeric((*path, column), cell) for column, cell in cells)
    return [issue for issue in issues if issue is not None]


def _not_numeric(path: Path, cell: Any) -> Issue | None:
    if cell is None or number_of(cell) is not None:
        return None
    return _issue(path, "table.numeric", f"must be a number, but is {quoted(cell)}", _spelled(cell))


def _spelled(cell: Any) -> str:
    """The number that a text spells exactly as JSON would."""
    if not isinstance(cell, str) or len(cell) > 100:
        return ""
    try:
        return dump(value) if number_of(value := parse(cell.strip(), max_depth=1)) is not None else ""
    except BadJson:
        return ""


def _issue(path: Path, rule: str, message: str, suggestion: str = "") -> Issue:
    pointer = to_pointer(path)
    return Issue(pointer=pointer, rule=rule, message=f"{pointer or 'the value'} {message}", suggestion=suggestion)
