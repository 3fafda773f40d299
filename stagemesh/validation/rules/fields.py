"""Rules about one field: a number near a value, a text that is one of several names."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from stagemesh.validation.forms import form_of
from stagemesh.validation.json_text import dump
from stagemesh.validation.pointer import to_pointer
from stagemesh.validation.rules.numbers import Tolerance, finite, number_of, plain
from stagemesh.validation.rules.places import Budget, invalid, names_of
from stagemesh.validation.sentences import listed, quoted, type_of
from stagemesh.validation.verdict import Issue

MAX_NAMES = 5_000
"""Names and other words for them, of one rule."""


class NumberCheck:
    """`{"pointer", "values", "tolerance", "at_least", "at_most"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._names = names_of(fields.get("pointer", ""), f"{field}.pointer")
        self._values = [finite(value, f"{field}.values") for value in fields.get("values", ())]
        self._tolerance = Tolerance(fields.get("tolerance", {}), f"{field}.tolerance")
        self._least, self._most = (
            finite(fields[name], f"{field}.{name}") if name in fields else None for name in ("at_least", "at_most")
        )
        if not self._values and self._least is None and self._most is None:
            raise invalid(field, "give values, at_least or at_most")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found = (self._issue(to_pointer(path), item) for path, item in budget.find(value, self._names))
        return [issue for issue in found if issue]

    def _issue(self, pointer: str, item: Any) -> Issue | None:
        if item is None:
            return None
        number = number_of(item)
        problem = self._problem(number) if number is not None else f"must be a number, but is of type {type_of(item)}"
        return Issue(pointer=pointer, rule="number", message=f"{pointer or 'the value'} {problem}") if problem else None

    def _problem(self, number: Decimal) -> str:
        if self._values and not any(self._tolerance.allows(number, value) for value in self._values):
            wanted = " or ".join(plain(value) for value in self._values[:5]) + (" …" if len(self._values) > 5 else "")
            return f"must be {wanted}{self._tolerance}, but is {plain(number)}"
        if self._least is not None and number < self._least:
            return f"must be at least {plain(self._least)}, but is {plain(number)}"
        if self._most is not None and number > self._most:
            return f"must be at most {plain(self._most)}, but is {plain(number)}"
        return ""


class SynonymCheck:
    """`{"pointer", "names": [{"name", "also": [...]}], "match_case"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._pattern = names_of(fields.get("pointer", ""), f"{field}.pointer")
        self._fold = str if fields.get("match_case", False) else str.casefold
        self._names: dict[str, None] = {}
        self._meant: dict[str, set[str]] = {}
        for entry in fields.get("names", ()):
            name = entry.get("name", "")
            if not name:
                raise invalid(f"{field}.names", "a name must not be empty")
            self._names[name] = None
            for word in (name, *entry.get("also", ())):
                self._meant.setdefault(self._form(word), set()).add(name)
        if not 0 < sum(len(names) for names in self._meant.values()) <= MAX_NAMES:
            raise invalid(f"{field}.names", f"give 1 to {MAX_NAMES} names and other words for them")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found = (self._issue(to_pointer(path), item) for path, item in budget.find(value, self._pattern))
        return [issue for issue in found if issue]

    def _issue(self, pointer: str, item: Any) -> Issue | None:
        if item is None or (isinstance(item, str) and item in self._names):
            return None
        subject = f"{pointer or 'the value'} must be {listed(list(self._names))}, but is {quoted(item)}"
        meant = self._meant.get(self._form(item), set()) if isinstance(item, str) else set()
        if len(meant) == 1:
            name = next(iter(meant))
            message = f"{subject}, another word for {quoted(name)}; use that"
            return Issue(pointer=pointer, rule="synonym", message=message, suggestion=dump(name))
        if meant:
            subject += f", which may mean {listed(sorted(meant))}"
        return Issue(pointer=pointer, rule="synonym.ambiguous" if meant else "synonym.unknown", message=subject)

    def _form(self, text: str) -> str:
        return self._fold(form_of(text))
