from __future__ import annotations

from typing import Any

import pytest

from services.engine.schema_closing import close_objects

NAMED: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
CLOSED = {**NAMED, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (NAMED, CLOSED),
        ({"type": "array", "items": NAMED}, {"type": "array", "items": CLOSED}),
        ({"type": "array", "prefixItems": [NAMED]}, {"type": "array", "prefixItems": [CLOSED]}),
        ({"anyOf": [NAMED, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$defs": {"x": NAMED}, "$ref": "#/$defs/x"}, {"$defs": {"x": CLOSED}, "$ref": "#/$defs/x"}),
    ],
)
def test_objects_with_named_properties_are_closed(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert close_objects(copy(schema)) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {**NAMED, "additionalProperties": True},
        {**NAMED, "additionalProperties": {"type": "string"}},
        {**NAMED, "patternProperties": {"^x": {}}},
        {**NAMED, "minProperties": 3},
        {**NAMED, "required": ["a", "unnamed"]},
        {"allOf": [NAMED, {"type": "object", "properties": {"b": {}}}]},
        {**NAMED, "anyOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}]},
        {**NAMED, "$ref": "#/$defs/more", "$defs": {"more": {"properties": {"b": {}}}}},
        {"enum": [{"properties": {"a": 1}}]},
        {"const": {"properties": {"a": 1}}},
    ],
)
def test_what_says_more_about_its_object_is_left_as_it_is(schema: dict[str, Any]) -> None:
    assert close_objects(copy(schema)) == schema


def copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copy(child) for key, child in value.items()}
    return [copy(child) for child in value] if isinstance(value, list) else value
