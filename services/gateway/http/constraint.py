"""What the answer must look like: `response_format`, `regex`, `choice`, `grammar`, vLLM's names, and `anchors`."""

from __future__ import annotations

from services.gateway.http.fields import Fields, json_type
from services.gateway.http.guided import choice, pattern, read_guided, schema_text
from stagemesh.api.common.v1 import common_pb2


def read_constraint(fields: Fields) -> common_pb2.OutputConstraint | None:
    """The one constraint that the body sets, if any. Raises InvalidRequest; whether it can be met is checked later."""
    regex, grammar = pattern(fields, "regex"), pattern(fields, "grammar")
    found = {
        "response_format": _response_format(fields),
        "regex": None if regex is None else common_pb2.OutputConstraint(regex=regex),
        "grammar": None if grammar is None else common_pb2.OutputConstraint(grammar=grammar),
        "choice": choice(fields, "choice"),
        **read_guided(fields),
    }
    given = [name for name, constraint in found.items() if constraint is not None]
    if len(given) > 1:
        fields.refuse(given[1], f"cannot be combined with {given[0]}")
    return found[given[0]] if given else None


def read_anchors(fields: Fields) -> list[common_pb2.Anchor]:
    """From `{"/pointer": ["key"]}`, `{"/pointer": {"keys": ["key"], "ignore_case": true}}` or `{"/pointer": {"set":
    "name"}}`. Raises InvalidRequest."""
    members = fields.members("anchors") or {}
    anchors = Fields(members, "anchors")
    return [_anchor(anchors, pointer) for pointer in members]


def _anchor(anchors: Fields, pointer: str) -> common_pb2.Anchor:
    if pointer and not pointer.startswith("/"):
        anchors.refuse(pointer, 'is not a JSON Pointer; begin with "/"')
    if isinstance(anchors.take(pointer), dict):
        detail = anchors.child(pointer) or Fields({})
        anchor = common_pb2.Anchor(pointer=pointer, keys=detail.strings("keys") or [], set=detail.text("set") or "")
        anchor.ignore_case = detail.flag("ignore_case") or False
        detail.done()
    else:
        anchor = common_pb2.Anchor(pointer=pointer, keys=anchors.strings(pointer) or [])
    if not anchor.keys and not anchor.set:
        anchors.refuse(pointer, "needs at least one key, or the name of a stored set", "EMPTY_ANCHOR")
    return anchor


def _response_format(fields: Fields) -> common_pb2.OutputConstraint | None:
    response_format = fields.child("response_format")
    if response_format is None:
        return None
    kind = response_format.text("type")
    constraint = None
    if kind == "json_object":
        constraint = common_pb2.OutputConstraint(json_object=True)
    elif kind == "json_schema":
        constraint = common_pb2.OutputConstraint(json_schema=_json_schema(response_format))
    elif kind != "text":
        response_format.refuse("type", "must be text, json_object or json_schema", "UNSUPPORTED_VALUE")
    response_format.done()
    return constraint


def _json_schema(response_format: Fields) -> str:
    wrapper = response_format.child("json_schema")
    if wrapper is None:
        response_format.refuse("json_schema", "is missing", "MISSING_PARAMETER")
    if not wrapper.text("name"):
        wrapper.refuse("name", "is missing", "MISSING_PARAMETER")
    schema = wrapper.take("schema")
    if schema is None:
        wrapper.refuse("schema", "is missing", "MISSING_PARAMETER")
    if not isinstance(schema, dict | bool):
        wrapper.refuse("schema", f"must be an object, not {json_type(schema)}", "INVALID_TYPE")
    wrapper.text("description")
    wrapper.flag("strict")  # an answer is held to its schema either way
    wrapper.done()
    return schema_text(wrapper, "schema", schema)
