"""JSON Pointers (RFC 6901), and patterns of them where `*` stands for every item of an array."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Path = tuple[str | int, ...]

MAX_POINTER_CHARS = 1_000
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*")
_BAD_ESCAPE = re.compile(r"~(?![01])")


def to_pointer(path: Sequence[str | int]) -> str:
    """The pointer of a path; of its nearest ancestor where names are too long to be shown."""
    parts = ["/" + str(part).replace("~", "~0").replace("/", "~1") for part in path]
    while sum(map(len, parts)) > MAX_POINTER_CHARS:
        parts.pop()
    return "".join(parts)


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """The names in a pointer. Raises ValueError with a sentence when it is malformed."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"a JSON Pointer is empty or begins with '/', but this is {pointer[:60]!r}")
    if _BAD_ESCAPE.search(pointer):
        raise ValueError("in a JSON Pointer '~' is written '~0' and a '/' within a name is written '~1'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def find(
    value: Any, names: tuple[str, ...], path: Path = (), *, on_visit: Callable[[], None] | None = None
) -> Iterator[tuple[Path, Any]]:
    """All places that the names lead to, with what is there; `*` goes to every item of an array.

    `on_visit` is called for every value on the way, and may raise to end the search.
    """
    if on_visit is not None:
        on_visit()
    if not names:
        yield path, value
        return
    name, rest = names[0], names[1:]
    if isinstance(value, dict):
        if name in value:
            yield from find(value[name], rest, (*path, name), on_visit=on_visit)
    elif isinstance(value, list):
        if name == "*":
            for index, item in enumerate(value):
                yield from find(item, rest, (*path, index), on_visit=on_visit)
        elif _ARRAY_INDEX.fullmatch(name) and len(name) < 10 and int(name) < len(value):
            yield from find(value[int(name)], rest, (*path, int(name)), on_visit=on_visit)


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy of `value` with `new` at `path`; parts off the path are shared."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy
