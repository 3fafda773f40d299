"""What the headers of a request say: who calls, under which ID, for how long, in which mode."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.datastructures import Headers

from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime import precision_mode
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.precision_mode import parse_mode

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True)
class Caller:
    api_key: str | None
    tenant_header: str | None
    request_id: str
    """Lower-case UUID, the idempotency key; empty when the caller gave none."""
    session_id: str
    traceparent: str
    timeout_s: float | None
    mode: common_pb2.PrecisionMode.ValueType = common_pb2.PRECISION_MODE_UNSPECIFIED


def read_caller(headers: Headers, max_timeout_s: float) -> Caller:
    """Raises InvalidRequest with the header at fault."""
    return Caller(
        api_key=_api_key(headers),
        tenant_header=headers.get("x-tenant-id"),
        request_id=_request_id(headers),
        session_id=_session_id(headers),
        traceparent=headers.get("traceparent", ""),
        timeout_s=_timeout_s(headers, max_timeout_s),
        mode=parse_mode(headers.get(precision_mode.HEADER, "")),
    )


def check_request_id(value: str, field: str) -> str:
    """`value` as a lower-case UUID. Raises InvalidRequest."""
    value = value.strip().lower()
    if not _UUID.fullmatch(value):
        raise InvalidRequest(
            "INVALID_REQUEST_ID",
            f"{field} must be a UUID (best a UUIDv7): it is the key under which a repeat finds the same request",
            field=field,
        )
    return value


def _api_key(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return headers.get("x-api-key")


def _session_id(headers: Headers) -> str:
    session_id = headers.get("x-session-id", "")
    if not session_id.isascii():
        raise InvalidRequest(
            "INVALID_IDENTIFIER",
            "x-session-id takes ASCII characters only; send others as session_id in the body",
            field="x-session-id",
        )
    return session_id


def _request_id(headers: Headers) -> str:
    given = {name: headers[name] for name in ("x-request-id", "idempotency-key") if name in headers}
    ids = {check_request_id(value, name) for name, value in given.items()}
    if len(ids) > 1:
        raise InvalidRequest(
            "INVALID_REQUEST_ID", "x-request-id and idempotency-key differ; send one of them", field="idempotency-key"
        )
    return ids.pop() if ids else ""


def _timeout_s(headers: Headers, max_timeout_s: float) -> float | None:
    text = headers.get("x-request-timeout-ms")
    if text is None:
        return None
    most_ms = int(max_timeout_s * 1000)
    # The length is checked before int() is: a header of many digits costs nothing.
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and 1 <= int(text) <= most_ms):
        raise InvalidRequest(
            "INVALID_TIMEOUT",
            f"x-request-timeout-ms must be an integer from 1 to {most_ms} (gateway.max_timeout_s)",
            field="x-request-timeout-ms",
        )
    return int(text) / 1000
