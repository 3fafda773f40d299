"""An object, its schema, and prose that tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Story:
    language: str
    name: str
    schema: dict[str, Any]
    value: dict[str, Any]
    source: str


def closed(**properties: Any) -> dict[str, Any]:
    """The schema of an object that has all of the properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
