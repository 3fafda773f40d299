"""Sessions as the store gives and takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.cache.lease import LeaseStamp
from stagemesh.api.common.v1.common_pb2 import ChatMessage, ModelIdentity


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    session_id: str
    user_id: str
    messages: Sequence[ChatMessage]
    token_ids: Sequence[int]
    """Tokens of all messages, or none if they were made by another model."""
    version: int
    created_ms: int
    updated_ms: int
    expires_ms: int


@dataclass(frozen=True, kw_only=True)
class Opened:
    session: StoredSession | None
    stamp: LeaseStamp
    salt: bytes
    public_salt: bytes


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One finished turn to be appended."""

    session_id: str
    user_id: str
    request_id: str
    model: ModelIdentity
    base_version: int
    messages: Sequence[ChatMessage]
    token_ids: Sequence[int]
    stamp: LeaseStamp | None


@dataclass(frozen=True, kw_only=True)
class Committed:
    version: int
    conflict: bool
    dropped_messages: int


@dataclass(frozen=True, kw_only=True)
class SessionEntry:
    """A session in a listing."""

    session_id: str
    user_id: str
    num_messages: int
    num_tokens: int
    updated_ms: int


@dataclass(frozen=True)
class PageEnd:
    """The entry after which the next page begins."""

    score_ms: int
    session_id: bytes
