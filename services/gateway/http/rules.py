"""Rules in a body: objects with the fields of the messages in common.proto."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from services.gateway.http.fields import Fields
from services.gateway.job import MAX_RULES
from stagemesh.api.common.v1 import common_pb2
from stagemesh.validation.json_form import read_message

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
        fields.refuse(name, f"may have up to {MAX_RULES} rules")
    return [read_message(item, kind(), f"{fields.path(name)}[{index}]") for index, item in enumerate(items)]
