"""JSON text, strictly: what RFC 8259 leaves open or Python lets through is an issue, and numbers keep their digits.

Parsed numbers are `int`, `float` where that spells the same text again, else `Decimal`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NoReturn

from stagemesh.validation.pointer import Path, to_pointer
from stagemesh.validation.verdict import Issue

MAX_NUMBER_CHARS = 1_000
MAX_DUPLICATES = 20

# Possessive, and the last string may be unclosed, so that no text makes this quadratic.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_SPACES = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]+', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class BadJson(Exception):
    """The text is no JSON that can be relied on; `issues` say why."""

    def __init__(self, *issues: Issue) -> None:
        super().__init__(issues[0].message)
        self.issues = issues


def parse(text: str, *, max_depth: int) -> Any:
    """The value of a strict JSON text. Raises BadJson."""
    if is_deeper(text, max_depth):
        raise BadJson(_issue("json.depth", f"the JSON is nested deeper than {max_depth} levels"))
    duplicates: dict[int, tuple[dict[str, Any], list[str]]] = {}

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            # The object is kept alive, or its identity could come back in another one.
            duplicates[id(members)] = (members, _repeated(key for key, _ in pairs))
        return members

    try:
        value = json.loads(
            text, object_pairs_hook=members, parse_float=_real, parse_int=_integer, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise BadJson(_syntax(error)) from None
    if duplicates:
        raise BadJson(*_duplicate_issues(value, duplicates))
    if _SURROGATE_ESCAPE.search(text):
        _refuse_unpaired_surrogates(value)
    return value


def is_deeper(text: str, max_depth: int) -> bool:
    """Whether brackets nest deeper than `max_depth`, whether or not the text is JSON."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > max_depth:
                return True
        elif match[0] in "]}":
            depth -= 1
    return False


def compact(text: str) -> str:
    """A JSON text without the spaces between its tokens; numbers and escapes stay as they are written."""
    return _SPACES.sub(lambda match: match[1] or "", text)


def dump(value: Any) -> str:
    """Compact JSON of a parsed value."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(key)}:{dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _issue(rule: str, message: str, path: Path = ()) -> Issue:
    return Issue(pointer=to_pointer(path), rule=rule, message=message)


def _syntax(error: json.JSONDecodeError) -> Issue:
    found = error.doc[error.pos : error.pos + 20]
    if error.pos >= len(error.doc.rstrip()):
        where = "at its end: it is empty or cut off"
    else:
        where = f"at line {error.lineno}, column {error.colno}, before {found!r}"
    problem = (error.msg[:1].lower() + error.msg[1:]).removesuffix(" at")
    return _issue("json.syntax", f"the text is not valid JSON: {problem} {where}")


def _real(text: str) -> float | Decimal:
    number = float(text)
    if math.isinf(number) or len(text) > MAX_NUMBER_CHARS:
        raise BadJson(_issue("json.number", f"the number {text[:40]} is beyond the range of JSON numbers in use"))
    return number if repr(number) == text else Decimal(text)


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARS:
        raise BadJson(_issue("json.number", f"a number has {len(text)} digits; {MAX_NUMBER_CHARS} are allowed"))
    return int(text)


def _constant(name: str) -> NoReturn:
    raise BadJson(_issue("json.number", f"{name} is not JSON; use a number, a string or null"))


def _repeated(keys: Iterable[str]) -> list[str]:
    return [key for key, number in Counter(keys).items() if number > 1]


def _duplicate_issues(value: Any, duplicates: dict[int, tuple[dict[str, Any], list[str]]]) -> list[Issue]:
    issues: list[Issue] = []
    for path, node in _walk(value, ()):
        for key in duplicates[id(node)][1] if id(node) in duplicates else ():
            message = f"the name {_string(key)[:80]} occurs more than once in one object; keep one of them"
            issues.append(_issue("json.duplicate", message, (*path, key)))
            if len(issues) == MAX_DUPLICATES:
                return issues
    # The object with the repeated names may itself have been replaced by a repeated name.
    return issues or [_issue("json.duplicate", "a name occurs more than once in one object")]


def _refuse_unpaired_surrogates(value: Any) -> None:
    for path, node in _walk(value, ()):
        for text in (node,) if isinstance(node, str) else node if isinstance(node, dict) else ():
            if any("\ud800" <= char <= "\udfff" for char in text):
                message = "a \\u escape stands for half of a surrogate pair, which is no character"
                raise BadJson(_issue("json.syntax", message, path))


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _walk(child, (*path, key))
