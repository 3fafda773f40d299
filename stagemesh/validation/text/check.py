"""All rules about one long text, or about the texts in a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stagemesh.validation.pointer import Path, to_pointer
from stagemesh.validation.rules.places import Budget, invalid, names_of
from stagemesh.validation.sentences import type_of
from stagemesh.validation.text.amounts import amount_issues
from stagemesh.validation.text.citations import Citations, Known
from stagemesh.validation.text.clauses import clause_issues
from stagemesh.validation.text.dates import date_issues
from stagemesh.validation.text.headings import headings
from stagemesh.validation.text.lines import lines_of
from stagemesh.validation.text.tables import TextTables
from stagemesh.validation.verdict import Issue

MAX_DEPTH = 32
"""How deep texts in a value are looked for."""


class TextCheck:
    """`{"pointer", "clauses", "dates", "amounts", "tables": {…}, "citations": {…}}`"""

    def __init__(self, fields: dict[str, Any], field: str, known: Known | None, some_keys: Sequence[str]) -> None:
        self._names = names_of(fields.get("pointer", ""), f"{field}.pointer")
        self._clauses, self._dates, self._amounts = (bool(fields.get(name)) for name in ("clauses", "dates", "amounts"))
        self._tables = TextTables(fields["tables"], f"{field}.tables") if "tables" in fields else None
        self._citations: Citations | None = None
        if "citations" in fields:
            self._citations = Citations(fields["citations"], f"{field}.citations", known, some_keys)
        if not any((self._clauses, self._dates, self._amounts, self._tables, self._citations)):
            raise invalid(field, "ask for clauses, dates, amounts, tables or citations")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found: list[Issue] = []
        for path, item in budget.find(value, self._names):
            if item is None:
                continue
            if self._names and not isinstance(item, str):
                message = f"{to_pointer(path)} must be a text to be looked through, but is of type {type_of(item)}"
                found.append(Issue(pointer=to_pointer(path), rule="text.type", message=message))
                continue
            for place, text in _texts(item, path, MAX_DEPTH):
                found += self._of_text(text, to_pointer(place))
        return found

    def _of_text(self, text: str, pointer: str) -> list[Issue]:
        lines = lines_of(text)
        found = headings(lines) if self._clauses or self._citations else []
        checks: list[Callable[[], list[Issue]]] = []
        if self._clauses:
            checks.append(lambda: clause_issues(found, pointer))
        if self._dates:
            checks.append(lambda: date_issues(lines, pointer))
        if self._amounts:
            checks.append(lambda: amount_issues(lines, pointer))
        if (tables := self._tables) is not None:
            checks.append(lambda: tables.issues(text, lines, pointer))
        if (citations := self._citations) is not None:
            checks.append(lambda: citations.issues(lines, found, pointer))
        return [issue for check in checks for issue in check()]


def _texts(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
    """Without a pointer, all texts of a value."""
    if isinstance(value, str):
        yield path, value
    elif depth and isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(child, (*path, key), depth - 1)
