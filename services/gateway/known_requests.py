"""Which requests are a user's, or of a session: what must be found when one of them is erased.

    stagemesh:ledger:of:<tenant>:user:<hash>      request IDs, each with the hash of its session
    stagemesh:ledger:of:<tenant>:session:<hash>   the same

Sorted by the time at which they began, bounded, with a time to live. Written as the ledger accepts a request.
"""

from __future__ import annotations

import hashlib
from typing import cast

from redis.asyncio import Redis

from stagemesh.api.gateway.v1 import gateway_pb2

MAX_REQUESTS = 20_000
"""Of one user or session; of more, the oldest are found by their time to live alone."""


def hash_of(name: str) -> str:
    """What stands for the ID of a user or a session in keys."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def user_key(tenant_id: str, user_id: str) -> str:
    return f"stagemesh:ledger:of:{tenant_id}:user:{hash_of(user_id)}"


def session_key(tenant_id: str, session_hash: str) -> str:
    return f"stagemesh:ledger:of:{tenant_id}:session:{session_hash}"


def keys_of(tenant_id: str, request: gateway_pb2.InferenceRequest) -> list[str]:
    """Where a request is to be known."""
    return [
        *([user_key(tenant_id, request.user_id)] if request.user_id else []),
        *([session_key(tenant_id, hash_of(request.session_id))] if request.session_id else []),
    ]


def member_of(request: gateway_pb2.InferenceRequest) -> str:
    return f"{request.request_id}:{hash_of(request.session_id) if request.session_id else ''}"


async def read(redis: Redis, key: str) -> list[tuple[str, str]]:
    """`(request ID, hash of its session or nothing)`. Raises RedisError, OSError or TimeoutError."""
    members = cast("list[bytes]", await redis.zrange(key, 0, -1))
    parts = (member.decode().partition(":") for member in members)
    return [(request_id, session) for request_id, _, session in parts]
