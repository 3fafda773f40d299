"""Patterns and formats within a schema, as the grammar's library must be told them to mean what the validator means."""

from __future__ import annotations

from typing import Any

from stagemesh.validation.ecma_pattern import to_plain

DATA = ("const", "enum", "default", "examples")
"""What they hold is no schema."""
TIMED = ("time", "date-time")
NO_LEAP_SECOND = "^[^:]*:[^:]*:[0-5]"
"""The library lets every minute have a second 60; the validator knows which ones had."""
NAMED = ("properties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""What they hold are schemas by name."""


def with_plain_patterns(schema: Any) -> Any:
    """A copy in which all patterns mean to the grammar's library what they mean to the validator."""
    if isinstance(schema, list):
        return [with_plain_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _plain(key, value) for key, value in schema.items()}
    if schema.get("format") in TIMED and isinstance(schema.get("allOf", []), list):
        plain["allOf"] = [*plain.get("allOf", []), {"type": schema.get("type", "string"), "pattern": NO_LEAP_SECOND}]
    return plain


def _plain(key: str, value: Any) -> Any:
    if key in DATA:
        return value
    if key == "pattern" and isinstance(value, str):
        return to_plain(value)
    if key == "patternProperties" and isinstance(value, dict):
        return {to_plain(pattern): with_plain_patterns(child) for pattern, child in value.items()}
    if key in NAMED and isinstance(value, dict):
        return {name: with_plain_patterns(child) for name, child in value.items()}
    return with_plain_patterns(value)
