"""Strings that do not meet their `format` where the dialect takes formats as annotations: warnings, never breaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationError, ValidationErrorKind

from stagemesh.validation.pointer import to_pointer
from stagemesh.validation.sentences import quoted
from stagemesh.validation.verdict import Issue, Severity

Kind = ValidationErrorKind

RULE = "format"
FORMS = {
    "date": "like 2025-03-04",
    "time": "like 14:30:00Z, with its zone",
    "date-time": "like 2025-03-04T14:30:00Z, with its zone",
    "duration": "like P1DT12H",
    "email": "like name@example.com",
    "idn-email": "like name@example.com",
    "uri": "like https://example.com/a",
    "uuid": "32 hexadecimal digits in groups of 8-4-4-4-12",
    "ipv4": "like 192.0.2.1",
    "ipv6": "like 2001:db8::1",
}
"""What a string of a format looks like."""


class FormatCheck:
    """Of one schema; made when it is needed first."""

    def __init__(self, schema: Any, assertive: Callable[[], jsonschema_rs.Validator]) -> None:
        """`assertive()`: the schema's validator for which formats are assertions."""
        self._schema = schema
        self._assertive = assertive

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator | None:
        return self._assertive() if _names_a_format(self._schema) else None

    def warnings(self, value: Any, breaches: Sequence[Issue]) -> list[Issue]:
        """What is not said among the breaches."""
        if self._validator is None or self._validator.is_valid(value):
            return []
        said = {issue.pointer for issue in breaches if issue.rule == RULE}
        found = [_warning(error) for error in _unmet(self._validator.iter_errors(value))]
        return [issue for issue in dict.fromkeys(found) if issue.pointer not in said]


def is_unmet_format(issue: Issue) -> bool:
    """Whether an issue is one of these warnings."""
    return issue.rule == RULE and issue.severity is Severity.WARNING


def _unmet(errors: Iterator[ValidationError] | Sequence[ValidationError]) -> Iterator[ValidationError]:
    for error in errors:
        match error.kind:
            case Kind.Format():
                yield error
            case Kind.AnyOf() | Kind.OneOfNotValid():
                yield from _unmet_in(error.kind.context)


def _unmet_in(alternatives: Sequence[Sequence[ValidationError]]) -> Sequence[ValidationError]:
    """Of the first alternative of which nothing but formats is not met."""
    for errors in alternatives:
        unmet = list(_unmet(errors))
        if unmet and len(unmet) >= len(errors):
            return unmet
    return ()


def _warning(error: ValidationError) -> Issue:
    pointer = to_pointer(error.instance_path)
    assert isinstance(error.kind, Kind.Format)
    name = error.kind.format
    form = f" ({FORMS[name]})" if name in FORMS else ""
    subject = pointer or "the value"
    message = f"{subject} should be in the format {quoted(name)}{form}, but is {quoted(error.instance)}"
    return Issue(pointer=pointer, rule=RULE, message=message, severity=Severity.WARNING)


def _names_a_format(schema: Any) -> bool:
    if isinstance(schema, dict):
        return isinstance(schema.get("format"), str) or any(map(_names_a_format, schema.values()))
    return isinstance(schema, list) and any(map(_names_a_format, schema))
