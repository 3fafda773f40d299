"""The body of a request: bounded in bytes and in time while it is read, then parsed as strict JSON."""

from __future__ import annotations

import asyncio

import orjson
from starlette.requests import ClientDisconnect, Request

from services.gateway.http.disconnect import ClientGoneError
from services.gateway.http.fields import json_type
from stagemesh.runtime.errors import DeadlineExceeded, Exhausted, InvalidRequest

BODY_TIMEOUT_S = 60.0
"""For a whole body."""


async def read_object(request: Request, max_bytes: int) -> dict[str, object]:
    """The JSON object that `request` carries.

    Raises InvalidRequest (not JSON, not an object, wrong media type), Exhausted (too large) or DeadlineExceeded.
    """
    _check_media_type(request)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            raw = await _read(request, max_bytes)
    except TimeoutError:
        raise DeadlineExceeded("BODY_TIMEOUT", f"the body did not arrive within {BODY_TIMEOUT_S:g} s") from None
    except ClientDisconnect:
        raise ClientGoneError from None
    return parse_object(raw)


def parse_object(raw: bytes) -> dict[str, object]:
    """Strict JSON: UTF-8, no NaN or Infinity, no lone surrogates, bounded depth. Raises InvalidRequest."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            "INVALID_JSON", f"the body is not valid JSON in UTF-8 ({error}); NaN and Infinity are not JSON either"
        ) from None
    if not isinstance(value, dict):
        raise InvalidRequest("INVALID_JSON", f"the body must be a JSON object, not {json_type(value)}")
    return value


async def _read(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> Exhausted:
    return Exhausted(
        "REQUEST_TOO_LARGE", f"the body is larger than the {max_bytes:,} bytes allowed (gateway.max_request_bytes)"
    )


def _check_media_type(request: Request) -> None:
    media_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    charset = parameters.partition("charset=")[2].partition(";")[0].strip().strip('"')
    if media_type.strip() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise InvalidRequest(
            "UNSUPPORTED_MEDIA_TYPE", "send JSON in UTF-8 with the header `content-type: application/json`"
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise InvalidRequest("UNSUPPORTED_MEDIA_TYPE", "compressed bodies are not supported; send plain JSON")
