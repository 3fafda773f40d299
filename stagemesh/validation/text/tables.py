"""Tables in a text: Markdown, and CSV between fences or as the whole text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stagemesh.validation.forms import form_of
from stagemesh.validation.rules.places import invalid
from stagemesh.validation.rules.table import MAX_COLUMNS
from stagemesh.validation.sentences import listed, quoted
from stagemesh.validation.text.lines import MAX_FOUND, Line, fences, issue_at
from stagemesh.validation.verdict import Issue

_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*+\|?[ \t]*")
_CELL = re.compile(r"(?:\\.|[^|\\])*+", re.DOTALL)
_NUMBER = re.compile(
    r"[-+−]?[ ]?(?:[¥￥$€£]|[A-Z]{3})?[ ]?[-+−]?(?:[0-9]{1,3}(?:[, ][0-9]{3})+|[0-9]+)(?:[.,][0-9]+)?"
    r"(?:[eE][-+]?[0-9]{1,3})?[ ]?(?:%|‰|[¥€£元万亿]+|[A-Z]{3})?"
)
_RULER = re.compile(r":?-+:?")
_EMPTY = frozenset({"", "-", "–", "—", "n/a", "N/A", "/", "无"})


@dataclass(frozen=True)
class Row:
    line: int
    cells: list[str]


class TextTables:
    """`{"header": [...], "numeric": [...], "csv"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._header = [form_of(name) for name in fields.get("header", ())]
        self._numeric = [form_of(name) for name in fields.get("numeric", ())]
        self._csv = bool(fields.get("csv", False))
        if max(len(self._header), len(self._numeric)) > MAX_COLUMNS:
            raise invalid(field, f"a table may have {MAX_COLUMNS} columns")

    def issues(self, text: str, lines: Sequence[Line], pointer: str) -> list[Issue]:
        found: list[Issue] = []
        for table in self._tables(text, lines):
            found += self._issues(table, pointer)
            if len(found) >= MAX_FOUND:
                break
        return found[:MAX_FOUND]

    def _tables(self, text: str, lines: Sequence[Line]) -> Iterator[list[Row]]:
        if self._csv:
            yield from _csv(text.splitlines(), 1, ",")
            return
        yield from markdown_tables(lines)
        for first, block in fences(text, "csv"):
            yield from _csv(block, first, ",")
        for first, block in fences(text, "tsv"):
            yield from _csv(block, first, "\t")

    def _issues(self, table: list[Row], pointer: str) -> list[Issue]:
        header = [form_of(cell) for cell in table[0].cells]
        found: list[Issue] = []
        if self._header and header != self._header:
            message = f"the header of the table must be {listed(self._header, 'and')}, but is {listed(header, 'and')}"
            found.append(issue_at(pointer, "table.header", table[0].line, message))
        numeric = [(header.index(name), name) for name in self._numeric if name in header]
        for row in table[1:]:
            if len(row.cells) != len(header):
                message = f"the row has {len(row.cells)} cells, but the header of its table has {len(header)}"
                found.append(issue_at(pointer, "table.length", row.line, message))
                continue
            for column, name in numeric:
                cell = form_of(row.cells[column].strip("*_` "))
                if cell not in _EMPTY and not _NUMBER.fullmatch(cell) and not _RULER.fullmatch(cell):
                    message = f"{quoted(cell)} in the column {quoted(name)} must be a number"
                    found.append(issue_at(pointer, "table.numeric", row.line, message))
            if len(found) >= MAX_FOUND:
                break
        return found


def markdown_tables(lines: Sequence[Line]) -> Iterator[list[Row]]:
    """A header, a line of dashes, and the rows below until a line without a bar."""
    index = 1
    while index < len(lines):
        if not ("|" in lines[index].text and _DELIMITER.fullmatch(lines[index].text) and "|" in lines[index - 1].text):
            index += 1
            continue
        rows = [Row(lines[i].number, cells_of(lines[i].text)) for i in (index - 1, index)]
        index += 1
        while index < len(lines) and "|" in lines[index].text:
            rows.append(Row(lines[index].number, cells_of(lines[index].text)))
            index += 1
        yield rows


def cells_of(line: str) -> list[str]:
    """The cells of a row; `\\|` is no border."""
    text = line.strip()
    text = text[1:] if text.startswith("|") else text
    cells, at = [], 0
    while at <= len(text):
        match = _CELL.match(text, at)
        assert match is not None
        end = match.end()
        if end < len(text) and text[end] == "\\":  # a backslash that ends the line
            end += 1
        cells.append(text[at:end].strip())
        at = end + 1
        if at == len(text) and text[end : end + 1] == "|":
            break  # the bar that closes the row
    return cells


def _csv(lines: list[str], first: int, delimiter: str) -> Iterator[list[Row]]:
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter)
    rows: list[Row] = []
    at = first
    try:
        for cells in reader:
            if cells:
                rows.append(Row(at, cells))
            at = first + reader.line_num
    except csv.Error:  # a cell beyond what the module takes; what was read is checked
        pass
    if rows:
        yield rows
