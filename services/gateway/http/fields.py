"""The members of a JSON object, taken one by one with their types checked; what nobody took is refused by name."""

from __future__ import annotations

from typing import NoReturn

from stagemesh.runtime.errors import InvalidRequest

MAX_NAME_CHARS = 80
"""How much of a caller's own name is repeated in an error."""
UINT32_MAX = 2**32 - 1


def json_type(value: object) -> str:
    """What JSON calls `value`, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


class Fields:
    """A JSON object under `path`. A member that is null counts as absent."""

    def __init__(self, members: dict[str, object], path: str = "") -> None:
        self._members = members
        self._path = path
        self._untaken = set(members)

    def path(self, name: str) -> str:
        """`response_format.json_schema` for `json_schema` below `response_format`."""
        name = name[:MAX_NAME_CHARS]
        return f"{self._path}.{name}" if self._path else name

    def take(self, name: str) -> object:
        self._untaken.discard(name)
        return self._members.get(name)

    def all(self) -> dict[str, object]:
        """All members, taken."""
        self._untaken.clear()
        return self._members

    def text(self, name: str) -> str | None:
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            self._wrong_type(name, value, "a string")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            self._wrong_type(name, value, "a boolean")
        return value

    def integer(self, name: str, *, least: int = 0, most: int = UINT32_MAX) -> int | None:
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong_type(name, value, "an integer")
        if not least <= value <= most:
            self.refuse(name, f"must be from {least} to {most}, not {value}")
        return value

    def number(self, name: str) -> float | None:
        value = self.take(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            self._wrong_type(name, value, "a number")
        return None if value is None else float(value)

    def items(self, name: str) -> list[object] | None:
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            self._wrong_type(name, value, "an array")
        return value

    def strings(self, name: str) -> list[str] | None:
        values = self.items(name)
        if values is None:
            return None
        strings = [value for value in values if isinstance(value, str)]
        if len(strings) != len(values):
            self.refuse(name, "must be an array of strings", "INVALID_TYPE")
        return strings

    def members(self, name: str) -> dict[str, object] | None:
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            self._wrong_type(name, value, "an object")
        return value

    def child(self, name: str) -> Fields | None:
        members = self.members(name)
        return None if members is None else Fields(members, self.path(name))

    def done(self) -> None:
        """Raises InvalidRequest that names a member which nobody took. A null asks for nothing and is let through."""
        for name in sorted(self._untaken):
            if self._members[name] is not None:
                self.refuse(name, "is not known here; leave it out", "UNKNOWN_PARAMETER")

    def refuse(self, name: str, rule: str, reason: str = "INVALID_VALUE") -> NoReturn:
        """Raises InvalidRequest `<path of name> <rule>`."""
        path = self.path(name)
        raise InvalidRequest(reason, f"{path} {rule}", field=path)

    def _wrong_type(self, name: str, value: object, wanted: str) -> NoReturn:
        self.refuse(name, f"must be {wanted}, not {json_type(value)}", "INVALID_TYPE")


def as_fields(value: object, path: str) -> Fields:
    """`value` as an object, for the items of arrays. Raises InvalidRequest."""
    if not isinstance(value, dict):
        raise InvalidRequest("INVALID_TYPE", f"{path} must be an object, not {json_type(value)}", field=path)
    return Fields(value, path)
