"""What a request may hold before anything is looked up."""

from __future__ import annotations

import base64
import binascii
import json
import re

from services.cache.config import CacheConfig
from services.cache.session import PageEnd
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.runtime.errors import InvalidRequest

MAX_PAGE_SIZE = 1_000
DEFAULT_PAGE_SIZE = 100
MAX_NAME_BYTES = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_id(value: str, field: str, config: CacheConfig, *, required: bool = True) -> str:
    """`value`, if it can be an ID. Raises InvalidRequest for an empty or overlong one; any characters may occur."""
    if required and not value:
        raise InvalidRequest("MISSING_ID", f"{field} must be given", field=field)
    if len(value.encode()) > config.max_id_bytes:
        raise InvalidRequest(
            "ID_TOO_LONG", f"{field} may have at most {config.max_id_bytes} bytes in UTF-8", field=field
        )
    return value


def check_name(value: str, field: str, *, required: bool = True) -> str:
    """`value`, if the gateway would take it as an ID, for calls of an operator that do not pass the gateway.

    Raises InvalidRequest.
    """
    if required and not value:
        raise InvalidRequest("MISSING_ID", f"{field} must be given", field=field)
    if len(value.encode()) > MAX_NAME_BYTES or _CONTROL.search(value):
        raise InvalidRequest(
            "INVALID_IDENTIFIER", f"{field} takes up to {MAX_NAME_BYTES} bytes without control characters", field=field
        )
    return value


def check_turn(request: cache_pb2.CommitRequest, config: CacheConfig) -> None:
    """Raises InvalidRequest for a turn that is empty or alone exceeds what a session may hold."""
    if not request.messages:
        raise InvalidRequest("EMPTY_TURN", "a commit needs at least one message", field="messages")
    num_bytes = sum(message.ByteSize() for message in request.messages)
    if len(request.messages) > config.max_session_messages or num_bytes > config.max_session_bytes:
        raise InvalidRequest(
            "TURN_TOO_LARGE",
            f"a turn may have at most {config.max_session_messages} messages and {config.max_session_bytes} bytes",
            field="messages",
        )


def page_size(given: int) -> int:
    return min(given or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def encode_page_token(end: PageEnd | None) -> str:
    if end is None:
        return ""
    return base64.urlsafe_b64encode(json.dumps([end.score_ms, end.session_id.hex()]).encode()).decode()


def decode_page_token(token: str) -> PageEnd | None:
    """Where the last page ended; None for the first page. Raises InvalidRequest for a token that is none of ours."""
    if not token:
        return None
    try:
        score_ms, session_id = json.loads(base64.urlsafe_b64decode(token.encode()))
        return PageEnd(_natural(score_ms), bytes.fromhex(session_id))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise InvalidRequest(
            "INVALID_PAGE_TOKEN", "page_token is not one that ListSessions has given", field="page_token"
        ) from None


def _natural(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError("not a time")
    return value
