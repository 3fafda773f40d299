"""Where the pointers of a rule lead to, within a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stagemesh.validation.pointer import Path, find, parse_pointer
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.verdict import Issue

MAX_POINTER_NAMES = 64
Names = tuple[str, ...]


class TooMany(Exception):
    """A rule leads to more values than are looked at."""


class Budget:
    """Values that a rule may still look at, those on the way to others included."""

    def __init__(self, num_values: int) -> None:
        self.num_values = self._left = num_values

    def find(self, value: Any, names: Names) -> Iterator[tuple[Path, Any]]:
        """As `pointer.find`. Raises TooMany."""
        return find(value, names, on_visit=self._visit)

    def _visit(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooMany

    def issue(self, subject: str) -> Issue:
        message = f"{subject} leads to more than {self.num_values} values; the others were not looked at"
        return Issue(pointer="", rule="rule.limit", message=message)


def names_of(pointer: Any, field: str) -> Names:
    """The names in a pointer of a rule. Raises Refusal INVALID_RULE."""
    if not isinstance(pointer, str) or pointer.count("/") > MAX_POINTER_NAMES:
        raise invalid(field, f"give a JSON Pointer with at most {MAX_POINTER_NAMES} names")
    try:
        return parse_pointer(pointer)
    except ValueError as error:
        raise invalid(field, str(error)) from None


def bound(names: Names, first: Names, path: Path) -> Names:
    """`names` for one place of `first`: where both begin alike, `*` means the item that `path` goes through."""
    found = list(names)
    for index, (name, same) in enumerate(zip(names, first, strict=False)):
        if name != same or index >= len(path):
            break
        found[index] = str(path[index])
    return tuple(found)


def shown(names: Names) -> str:
    return "".join("/" + name for name in names) or "the value"


def invalid(field: str, message: str) -> Refusal:
    return Refusal("INVALID_RULE", message, field=field)
