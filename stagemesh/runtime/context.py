"""What travels beside a call: request, tenant and trace. For logs only; authority is in the messages."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
tenant_id: ContextVar[str] = ContextVar("tenant_id", default="")
traceparent: ContextVar[str] = ContextVar("traceparent", default="")

METADATA_KEYS: Mapping[str, ContextVar[str]] = {
    "x-request-id": request_id,
    "x-tenant-id": tenant_id,
    "traceparent": traceparent,
}

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def child_traceparent(parent: str) -> str:
    """A new span under `parent` (W3C Trace Context), or the root of a new trace when `parent` is malformed."""
    span = secrets.token_hex(8)
    if _TRACEPARENT.fullmatch(parent) and not parent.startswith("ff"):
        version, trace, _, flags = parent.split("-")
        return f"{version}-{trace}-{span}-{flags}"
    return f"00-{secrets.token_hex(16)}-{span}-01"


def outgoing_metadata() -> list[tuple[str, str]]:
    """Metadata pairs for a call made on behalf of the current request."""
    return [(key, value) for key, variable in METADATA_KEYS.items() if (value := variable.get())]
