"""Rules between fields: a total, a product, an order."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from stagemesh.validation.pointer import Path, find, to_pointer
from stagemesh.validation.rules.date_formats import DateFormats, date_of
from stagemesh.validation.rules.numbers import EXACT, Tolerance, number_of, plain, product, total
from stagemesh.validation.rules.places import Budget, Names, bound, invalid, names_of, shown
from stagemesh.validation.sentences import quoted
from stagemesh.validation.verdict import Issue, Severity

MAX_POINTERS = 32


class SumCheck:
    """`{"total", "of": [...], "minus": [...], "tolerance"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._total = names_of(fields.get("total", ""), f"{field}.total")
        self._of = _pointers(fields, "of", field)
        self._minus = _pointers(fields, "minus", field, least=0)
        self._tolerance = Tolerance(fields.get("tolerance", {}), f"{field}.tolerance")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found: list[Issue] = []
        for path, item in budget.find(value, self._total):
            found += self._issues(value, path, item, budget)
        return found or _absent(value, self._total, "sum")

    def _issues(self, value: Any, path: Path, item: Any, budget: Budget) -> list[Issue]:
        stated = number_of(item)
        if stated is None:
            return [] if item is None else [_no_number(path, item, "sum")]
        plus, problems = _numbers(value, self._of, self._total, path, budget, "sum")
        minus, more = _numbers(value, self._minus, self._total, path, budget, "sum")
        if problems or more:
            return problems + more
        found = EXACT.subtract(total(plus), total(minus))
        if self._tolerance.allows(stated, found):
            return []
        parts = " and ".join(shown(names) for names in self._of)
        less = f" less {' and '.join(shown(names) for names in self._minus)}" if self._minus else ""
        message = (
            f"{to_pointer(path) or 'the value'} is {plain(stated)}, but {parts}{less} add up to {plain(found)}; "
            f"they must be equal{self._tolerance}: correct the total or the parts"
        )
        return [Issue(pointer=to_pointer(path), rule="sum", message=message)]


class ProductCheck:
    """`{"result", "factors": [...], "tolerance"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._result = names_of(fields.get("result", ""), f"{field}.result")
        self._factors = _pointers(fields, "factors", field)
        self._tolerance = Tolerance(fields.get("tolerance", {}), f"{field}.tolerance")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        found: list[Issue] = []
        for path, item in budget.find(value, self._result):
            found += self._issues(value, path, item, budget)
        return found or _absent(value, self._result, "product")

    def _issues(self, value: Any, path: Path, item: Any, budget: Budget) -> list[Issue]:
        stated = number_of(item)
        if stated is None:
            return [] if item is None else [_no_number(path, item, "product")]
        factors, problems = _numbers(value, self._factors, self._result, path, budget, "product")
        if problems:
            return problems
        if len(factors) != len(self._factors):
            message = (
                f"{to_pointer(path)} is a product, but there are {len(factors)} of its {len(self._factors)} factors"
            )
            return [Issue(pointer=to_pointer(path), rule="product", message=message)]
        found = product(factors)
        if self._tolerance.allows(stated, found):
            return []
        parts = " × ".join(plain(factor) for factor in factors)
        message = (
            f"{to_pointer(path) or 'the value'} is {plain(stated)}, but {parts} is {plain(found)}; "
            f"they must be equal{self._tolerance}: correct the result or a factor"
        )
        return [Issue(pointer=to_pointer(path), rule="product", message=message)]


class OrderCheck:
    """`{"pointers": [...], "strict", "formats"}`"""

    def __init__(self, fields: dict[str, Any], field: str) -> None:
        self._pointers = _pointers(fields, "pointers", field, least=1)
        self._strict = fields.get("strict", False)
        self._formats = DateFormats(fields.get("formats", ()), f"{field}.formats")
        if len(self._pointers) == 1 and "*" not in self._pointers[0]:
            raise invalid(f"{field}.pointers", "give at least two pointers, or one with `*`")

    def issues(self, value: Any, budget: Budget) -> list[Issue]:
        first = self._pointers[0]
        if len(self._pointers) == 1:
            return self._in_order(list(budget.find(value, first)))
        found: list[Issue] = []
        for path, item in budget.find(value, first):
            places = [(path, item)]
            for names in self._pointers[1:]:
                places += budget.find(value, bound(names, first, path))
            found += self._in_order(places)
        return found

    def _in_order(self, places: Sequence[tuple[Path, Any]]) -> list[Issue]:
        found: list[Issue] = []
        before: tuple[Path, Any, Any] | None = None
        for path, item in places:
            if item is None:
                continue
            key = self._key(item)
            if key is None:
                what = f"a date written {self._formats} or a number"
                message = f"{to_pointer(path) or 'the value'} is {quoted(item)}, but must be {what} to be compared"
                found.append(Issue(pointer=to_pointer(path), rule="order", message=message))
                continue
            if before is not None and (problem := self._problem(before, (path, item, key))):
                found.append(Issue(pointer=to_pointer(path), rule="order", message=problem))
            before = (path, item, key)
        return found

    def _problem(self, before: tuple[Path, Any, Any], after: tuple[Path, Any, Any]) -> str:
        earlier, later = before[2], after[2]
        subject = f"{to_pointer(after[0]) or 'the value'} is {quoted(after[1])}"
        if type(earlier) is not type(later):
            return f"{subject}, which cannot be compared with {quoted(before[1])} at {to_pointer(before[0])}"
        if earlier < later or (earlier == later and not self._strict):
            return ""
        must = "must be more than" if self._strict else "must not be less than"
        return f"{subject}, but {must} {to_pointer(before[0])}, which is {quoted(before[1])}"

    def _key(self, item: Any) -> Any:
        return date_of(item, self._formats) if isinstance(item, str) else number_of(item)


def _pointers(fields: dict[str, Any], name: str, field: str, least: int = 1) -> list[Names]:
    given = fields.get(name, ())
    if not least <= len(given) <= MAX_POINTERS:
        raise invalid(f"{field}.{name}", f"give {least} to {MAX_POINTERS} pointers")
    return [names_of(pointer, f"{field}.{name}[{index}]") for index, pointer in enumerate(given)]


def _numbers(
    value: Any, patterns: Sequence[Names], first: Names, path: Path, budget: Budget, rule: str
) -> tuple[list[Decimal], list[Issue]]:
    """All numbers that go with one place of `first`; nulls count as absent."""
    found: list[Decimal] = []
    problems: list[Issue] = []
    for names in patterns:
        for place, item in budget.find(value, bound(names, first, path)):
            number = number_of(item)
            if number is not None:
                found.append(number)
            elif item is not None:
                problems.append(_no_number(place, item, rule))
    return found, problems


def _no_number(path: Path, item: Any, rule: str) -> Issue:
    message = f"{to_pointer(path) or 'the value'} must be a number to be reckoned with, but is {quoted(item)}"
    return Issue(pointer=to_pointer(path), rule=rule, message=message)


def _absent(value: Any, names: Names, rule: str) -> list[Issue]:
    """A warning where a rule found nothing to check."""
    if "*" in names or any(True for _ in find(value, names)):
        return []
    message = f"there is nothing at {shown(names)}, so the rule {rule!r} was not checked"
    return [Issue(pointer=shown(names), rule="rule.missing", message=message, severity=Severity.WARNING)]
