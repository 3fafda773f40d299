"""What `stagemesh deferred` shows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict

if TYPE_CHECKING:
    from services.gateway.deferred_admin import DeferredEntry
    from stagemesh.api.gateway.v1 import gateway_pb2


def entry_json(entry: DeferredEntry) -> dict[str, Any]:
    return {
        "request_id": entry.request_id,
        "tenant_id": entry.tenant_id,
        "state": entry.state,
        "priority": entry.priority,
        "waited_s": round(time.time() - entry.deferred_at_s, 3) if entry.deferred_at_s else None,
        "expires_at_s": entry.expires_at_s or None,
        "reason": entry.reason or None,
        "message": entry.message or None,
    }


def entry_line(entry: DeferredEntry) -> str:
    if entry.state == "dead":
        return f"{entry.request_id}  {entry.tenant_id}  dead: {entry.reason}, {entry.message}"
    waited_s, left_s = time.time() - entry.deferred_at_s, entry.expires_at_s - time.time()
    return (
        f"{entry.request_id}  {entry.tenant_id}  {entry.state} for {waited_s:.0f} s, "
        f"priority {entry.priority}, expires in {left_s:.0f} s"
    )


def request_json(request: gateway_pb2.InferenceRequest | None) -> dict[str, Any] | None:
    """What was asked: limits and switches; its texts only as their number of characters."""
    if request is None:
        return None
    shown: dict[str, Any] = MessageToDict(request, preserving_proto_field_name=True)
    shown.pop("chat", None)
    if request.HasField("chat"):
        shown["messages"] = [{"role": message.role, "chars": len(message.content)} for message in request.chat.messages]
    if "prompt" in shown:
        shown["prompt_chars"] = len(shown.pop("prompt"))
    return shown
