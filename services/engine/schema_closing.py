"""Keep a model to the properties that a schema names.

A schema that does not say `additionalProperties` allows any; a small model then invents properties until its tokens run
out. What is generated under the closed schema is valid under the open one as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

COMBINING = frozenset(
    {
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "$dynamicRef", "$recursiveRef",
        "dependentSchemas", "dependencies", "dependentRequired", "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords that let another schema speak about the same object."""
OBJECT_KEYWORDS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "minProperties"})
SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
SUBSCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SUBSCHEMAS = ("additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames")


def close_objects(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` itself, changed: objects with named properties get `additionalProperties: false`.

    Left as it is where two schemas may describe one object, since closing both could leave nothing valid.
    """
    nodes = list(_subschemas(schema))
    if any("allOf" in node or (COMBINING & node.keys() and OBJECT_KEYWORDS & node.keys()) for node in nodes):
        return schema
    for node in nodes:
        if _can_close(node):
            node["additionalProperties"] = False
    return schema


def _can_close(node: dict[str, Any]) -> bool:
    properties = node.get("properties")
    return (
        isinstance(properties, dict)
        and bool(properties)
        and not {"additionalProperties", "patternProperties", "minProperties"} & node.keys()
        and set(map(str, node.get("required") or ())) <= properties.keys()
    )


def _subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield node
        pending += [node.get(key) for key in SUBSCHEMAS]
        for key in SUBSCHEMA_MAPS:
            if isinstance(children := node.get(key), dict):
                pending += children.values()
        for key in (*SUBSCHEMA_LISTS, "items"):
            if isinstance(listed := node.get(key), list):
                pending += listed
