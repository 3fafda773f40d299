"""What `stagemesh deferred` shows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict

from stagemesh.cli.client.deferred import STATES

if TYPE_CHECKING:
    from stagemesh.api.gateway.v1 import deferred_pb2


def entry_json(entry: deferred_pb2.DeferredEntry) -> dict[str, Any]:
    deferred_at_s, expires_at_s = _times_s(entry)
    return {
        "request_id": entry.request_id,
        "tenant_id": entry.tenant_id,
        "state": STATES[entry.state],
        "priority": entry.priority,
        "waited_s": round(time.time() - deferred_at_s, 3) if deferred_at_s else None,
        "expires_at_s": expires_at_s or None,
        "reason": entry.reason or None,
        "message": entry.message or None,
    }


def entry_line(entry: deferred_pb2.DeferredEntry) -> str:
    state = STATES[entry.state]
    if state == "dead":
        return f"{entry.request_id}  {entry.tenant_id}  dead: {entry.reason}, {entry.message}"
    deferred_at_s, expires_at_s = _times_s(entry)
    return (
        f"{entry.request_id}  {entry.tenant_id}  {state} for {time.time() - deferred_at_s:.0f} s, "
        f"priority {entry.priority}, expires in {expires_at_s - time.time():.0f} s"
    )


def request_json(found: deferred_pb2.GetDeferredResponse) -> dict[str, Any] | None:
    """What was asked: limits and switches; its texts only as their number of characters."""
    if not found.HasField("request"):
        return None
    shown: dict[str, Any] = MessageToDict(found.request, preserving_proto_field_name=True)
    shown.pop("chat", None)
    shown.pop("prompt", None)
    if found.message_chars:
        roles = (message.role for message in found.request.chat.messages)
        shown["messages"] = [
            {"role": role, "chars": chars} for role, chars in zip(roles, found.message_chars, strict=True)
        ]
    chars = {"prompt_chars": found.prompt_chars, "source_chars": found.source_chars}
    return shown | {name: number for name, number in chars.items() if number}


def _times_s(entry: deferred_pb2.DeferredEntry) -> tuple[float, float]:
    """When it was deferred and when it expires, in Unix time; 0 where that is not told."""
    return entry.deferred_at.ToMicroseconds() / 1e6, entry.expires_at.ToMicroseconds() / 1e6
