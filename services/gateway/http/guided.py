"""Constraints as vLLM's users send them: `guided_json` and its like, and the newer `structured_outputs`."""

from __future__ import annotations

from typing import Any

import orjson

from services.gateway.http.fields import Fields, json_type
from stagemesh.api.common.v1 import common_pb2

PREFIX = "guided_"
KINDS = ("json", "json_object", "regex", "choice", "grammar")
Constraint = common_pb2.OutputConstraint


def read_guided(fields: Fields) -> dict[str, Constraint]:
    """By the name of the member that sets it. Raises InvalidRequest for what asks for something that is not there."""
    found = _read(fields, PREFIX)
    fields.text("guided_decoding_backend")  # there is one, and what it enforces is the same
    _refuse_whitespace(fields, "guided_whitespace_pattern")
    outputs = fields.child("structured_outputs")
    if outputs is not None:
        inner = _read(outputs, "")
        for name in (
            "disable_fallback",
            "disable_any_whitespace",
        ):  # bounded whitespace, and no other way to fall back to
            outputs.flag(name)
        if outputs.flag("disable_additional_properties"):
            outputs.refuse(
                "disable_additional_properties",
                'is not supported here; say "additionalProperties": false in the schema',
                "UNSUPPORTED_PARAMETER",
            )
        _refuse_whitespace(outputs, "whitespace_pattern")
        if outputs.take("structural_tag") is not None:
            outputs.refuse("structural_tag", "is not supported here; leave it out", "UNSUPPORTED_PARAMETER")
        outputs.done()
        if not inner:
            fields.refuse("structured_outputs", f"must have one of {', '.join(KINDS)}", "MISSING_PARAMETER")
        found |= {f"structured_outputs.{name}": constraint for name, constraint in inner.items()}
    return found


def _read(fields: Fields, prefix: str) -> dict[str, Constraint]:
    found = {
        f"{prefix}json": _schema(fields, f"{prefix}json"),
        f"{prefix}json_object": Constraint(json_object=True) if fields.flag(f"{prefix}json_object") else None,
        f"{prefix}regex": _regex(fields, f"{prefix}regex"),
        f"{prefix}choice": choice(fields, f"{prefix}choice"),
        f"{prefix}grammar": _grammar(fields, f"{prefix}grammar"),
    }
    return {name: constraint for name, constraint in found.items() if constraint is not None}


def _schema(fields: Fields, name: str) -> Constraint | None:
    """An object, or one as a text: vLLM takes both."""
    schema = fields.take(name)
    if schema is None:
        return None
    if isinstance(schema, str):
        if not schema.strip():
            fields.refuse(name, "must not be empty")
        return Constraint(json_schema=schema)
    if not isinstance(schema, dict | bool):
        fields.refuse(name, f"must be an object or a string, not {json_type(schema)}", "INVALID_TYPE")
    return Constraint(json_schema=schema_text(fields, name, schema))


def schema_text(fields: Fields, name: str, schema: dict[str, Any] | bool) -> str:
    """As JSON. Refuses one that is nested more deeply than any that can be enforced."""
    try:
        return orjson.dumps(schema).decode()
    except orjson.JSONEncodeError:
        fields.refuse(name, "is nested too deeply")


def _regex(fields: Fields, name: str) -> Constraint | None:
    text = pattern(fields, name)
    return None if text is None else Constraint(regex=text)


def _grammar(fields: Fields, name: str) -> Constraint | None:
    text = pattern(fields, name)
    return None if text is None else Constraint(grammar=text)


def pattern(fields: Fields, name: str) -> str | None:
    """A text that is not empty."""
    text = fields.text(name)
    if text == "":
        fields.refuse(name, "must not be empty")
    return text


def choice(fields: Fields, name: str) -> Constraint | None:
    values = fields.strings(name)
    if values is None:
        return None
    if not values or not all(values):
        fields.refuse(name, "must be an array of texts that are not empty")
    return Constraint(choice=common_pb2.ChoiceList(values=values))


def _refuse_whitespace(fields: Fields, name: str) -> None:
    if fields.text(name) is not None:
        fields.refuse(name, "is not supported here: whitespace is bounded as it is", "UNSUPPORTED_PARAMETER")
