"""A field must be a date that exists, in a declared form, within bounds."""

from __future__ import annotations

from datetime import date
from typing import Any

from stagemesh.validation.json_text import dump
from stagemesh.validation.pointer import to_pointer
from stagemesh.validation.rules.date_formats import MAX_DATE_CHARS, DateFormats, existing, meant
from stagemesh.validation.rules.places import Budget, invalid, names_of
from stagemesh.validation.sentences import quoted, type_of
from stagemesh.validation.verdict import Issue


class DateCheck:
    """`{"pointer", "formats": [...], "not_before", "not_after"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._names = names_of(fields.get("pointer", ""), f"{field}.pointer")
        self._formats = DateFormats(fields.get("formats", ()), f"{field}.formats")
        self._first, self._last = (
            _bound(fields.get(name, ""), f"{field}.{name}") for name in ("not_before", "not_after")
        )

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found = (self._issue(to_pointer(path), item) for path, item in budget.find(value, self._names))
        return [issue for issue in found if issue]

    def _issue(self, pointer: str, item: Any) -> Issue | None:
        if item is None:
            return None
        subject = pointer or "the value"
        if not isinstance(item, str):
            message = f"{subject} must be a date written {self._formats}, but is of type {type_of(item)}"
            return Issue(pointer=pointer, rule="date", message=message)
        parts = self._formats.parts(item) if len(item) <= MAX_DATE_CHARS else None
        if parts is None:
            return self._other_form(pointer, item)
        day = existing(*parts)
        if day is None:
            message = f"{subject} is {quoted(item)}, a date that does not exist"
            return Issue(pointer=pointer, rule="date.exists", message=message)
        return self._out_of_bounds(pointer, item, day)

    def _other_form(self, pointer: str, item: str) -> Issue:
        day = meant(item)
        message = f"{pointer or 'the value'} must be a date written {self._formats}, but is {quoted(item)}"
        if day is None:
            return Issue(pointer=pointer, rule="date.format", message=message)
        text = self._formats.write(day)
        message += f"; write {quoted(text)}"
        return Issue(pointer=pointer, rule="date.format", message=message, suggestion=dump(text))

    def _out_of_bounds(self, pointer: str, item: str, day: date) -> Issue | None:
        subject = f"{pointer or 'the value'} is {quoted(item)}, but must not be"
        if self._first is not None and day < self._first:
            return Issue(pointer=pointer, rule="date.bounds", message=f"{subject} before {self._first}")
        if self._last is not None and day > self._last:
            return Issue(pointer=pointer, rule="date.bounds", message=f"{subject} after {self._last}")
        return None


def _bound(text: Any, field: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except (TypeError, ValueError):
        raise invalid(field, "must be a date written YYYY-MM-DD") from None
