"""Rules in a body: objects with the fields of the messages in common.proto."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from services.gateway.http.fields import MAX_NAME_CHARS, Fields, as_fields
from services.gateway.job import MAX_RULES
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest

M = TypeVar("M", bound=Message)


def read_rules(fields: Fields) -> list[common_pb2.Rule]:
    """From `[{"sum": {"total": "/total", "of": ["/items/*/amount"]}}]`. Raises InvalidRequest."""
    return _read(fields, "rules", common_pb2.Rule)


def read_text_rules(fields: Fields) -> list[common_pb2.TextRules]:
    """From `[{"clauses": true, "dates": true}]`. Raises InvalidRequest."""
    return _read(fields, "text_rules", common_pb2.TextRules)


def _read(fields: Fields, name: str, kind: type[M]) -> list[M]:
    items = fields.items(name) or []
    if len(items) > MAX_RULES:
        fields.refuse(name, f"may have {MAX_RULES} rules")
    return [_parsed(item, f"{fields.path(name)}[{index}]", kind()) for index, item in enumerate(items)]


def _parsed(item: object, path: str, message: M) -> M:
    fields = as_fields(item, path)
    try:
        return ParseDict(fields.all(), message, max_recursion_depth=10)
    except ParseError as error:
        problem = " ".join(str(error).split())[: 2 * MAX_NAME_CHARS]
        raise InvalidRequest("INVALID_VALUE", f"{path} cannot be read: {problem}", field=path) from None
