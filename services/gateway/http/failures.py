"""Errors as HTTP: one table from codes to statuses, OpenAI's error object, and headers that say whether to retry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import grpc

from services.gateway.http.shape import JsonObject
from stagemesh.runtime.errors import StagemeshError

STATUS_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}

STATUS_BY_REASON = {
    "PROMPT_TOO_LONG": 400,
    "METHOD_NOT_ALLOWED": 405,
    "BODY_TIMEOUT": 408,
    "HEAD_TIMEOUT": 408,
    "REQUEST_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "HEAD_TOO_LARGE": 431,
}
"""Reasons for which HTTP has a status of its own."""

CODE_BY_REASON = {
    "PROMPT_TOO_LONG": "context_length_exceeded",
    "API_KEY_REQUIRED": "invalid_api_key",
    "API_KEY_INVALID": "invalid_api_key",
    "MISSING_PARAMETER": "missing_required_parameter",
}
"""Reasons that OpenAI's clients know under another name; the others are spelled in lower case."""

TYPE_BY_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    499: "request_cancelled",
}
"""Other statuses are `invalid_request_error` below 500 and `server_error` from there on."""

PARAM_BY_FIELD = {
    "policy.precision_mode": "x-inference-mode",
    "chat": "messages",
    "user_id": "user",
    "constraint.json_schema": "response_format.json_schema.schema",
    "constraint.json_object": "response_format",
}
"""Fields of InferenceRequest that have another name in a body."""


@dataclass(frozen=True)
class Failure:
    status: int
    body: JsonObject
    headers: dict[str, str]


def failure_of(error: StagemeshError, more: JsonObject | None = None) -> Failure:
    """The reply for `error`; `more` stands beside the error object."""
    status = STATUS_BY_REASON.get(error.reason) or STATUS_BY_CODE.get(error.code, 500)
    return Failure(status, {"error": error_object(error, status), **(more or {})}, _headers(error, status))


def error_object(error: StagemeshError, status: int) -> JsonObject:
    return {
        "message": error.message,
        "type": TYPE_BY_STATUS.get(status) or ("invalid_request_error" if status < 500 else "server_error"),
        "param": param_of(error.field),
        "code": CODE_BY_REASON.get(error.reason) or error.reason.lower(),
    }


def param_of(field: str) -> str | None:
    """The name that an HTTP caller knows for a field of InferenceRequest."""
    for prefix in ("sampling.", "chat.", "constraint."):
        if field.startswith(prefix) and field not in PARAM_BY_FIELD:
            field = field.removeprefix(prefix)
    return PARAM_BY_FIELD.get(field, field) or None


def retry_headers(retry_after_ms: int) -> dict[str, str]:
    """Headers that say when to try again, or (0) that repeating the same request is in vain."""
    if not retry_after_ms:
        return {"x-should-retry": "false"}
    return {
        "x-should-retry": "true",
        "retry-after": str(math.ceil(retry_after_ms / 1000)),
        "retry-after-ms": str(retry_after_ms),
    }


def _headers(error: StagemeshError, status: int) -> dict[str, str]:
    headers = retry_headers(error.retry_after_ms)
    if error.code is grpc.StatusCode.UNAVAILABLE:
        headers["x-should-retry"] = "true"  # also without a hint: what is away comes back
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return headers
