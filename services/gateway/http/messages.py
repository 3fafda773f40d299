"""Chat messages of a body: text only."""

from __future__ import annotations

from services.gateway.http.fields import Fields, as_fields, json_type
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
UNSUPPORTED_ROLES = frozenset({"tool", "function"})
UNSUPPORTED_MEMBERS = ("tool_calls", "function_call", "refusal", "audio", "tool_call_id")

PART_SEPARATOR = "\n"
"""Between the text parts of one message."""


def read_messages(fields: Fields) -> common_pb2.ChatMessages:
    """Raises InvalidRequest with the message at fault."""
    items = fields.items("messages")
    if items is None:
        fields.refuse("messages", "is missing", "MISSING_PARAMETER")
    if not items:
        fields.refuse("messages", "must hold at least one message")
    return common_pb2.ChatMessages(messages=[_message(item, f"messages[{i}]") for i, item in enumerate(items)])


def _message(item: object, path: str) -> common_pb2.ChatMessage:
    fields = as_fields(item, path)
    role = fields.text("role")
    if role in UNSUPPORTED_ROLES:
        fields.refuse("role", f"{role} is not supported here: there are no tool calls", "UNSUPPORTED_VALUE")
    if role not in ROLES:
        fields.refuse("role", f"must be one of {', '.join(ROLES)}")
    for name in UNSUPPORTED_MEMBERS:
        if fields.take(name) not in (None, []):
            fields.refuse(name, "is not supported here", "UNSUPPORTED_PARAMETER")
    message = common_pb2.ChatMessage(role=ROLES[role], content=_content(fields), name=fields.text("name") or "")
    fields.done()
    return message


def _content(fields: Fields) -> str:
    content = fields.take("content")
    if isinstance(content, str):
        return content
    if content is None:
        fields.refuse("content", "is missing", "MISSING_PARAMETER")
    if not isinstance(content, list):
        fields.refuse(
            "content", f"must be a string or an array of text parts, not {json_type(content)}", "INVALID_TYPE"
        )
    if not content:
        fields.refuse("content", "must hold at least one part")
    path = fields.path("content")
    return PART_SEPARATOR.join(_text_part(part, f"{path}[{i}]") for i, part in enumerate(content))


def _text_part(item: object, path: str) -> str:
    part = as_fields(item, path)
    kind = part.text("type")
    if kind != "text":
        raise InvalidRequest(
            "UNSUPPORTED_VALUE",
            f"{path}.type must be text: parts of type {(kind or 'null')[:40]} are not supported here",
            field=f"{path}.type",
        )
    text = part.text("text")
    if text is None:
        part.refuse("text", "is missing", "MISSING_PARAMETER")
    part.done()
    return text
