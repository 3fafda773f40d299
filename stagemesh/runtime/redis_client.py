"""Connections to Redis (or Valkey): every wait has a deadline, nothing is repeated behind the caller's back."""

from __future__ import annotations

from typing import Any, cast

import redis.asyncio
from redis.asyncio.connection import Connection, UnixDomainSocketConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import StagemeshError, Unavailable
from stagemesh.runtime.redis_connection import CANCELLABLE

Redis = redis.asyncio.Redis
"""The client type; replies are bytes."""


def connect(
    url: str,
    *,
    purpose: str = "ledger",
    command_timeout_s: float = 2.0,
    connect_timeout_s: float = 1.0,
    max_connections: int = 64,
) -> Redis:
    """A client that connects on first use; close it with `await client.aclose()`.

    A caller waits at most `command_timeout_s` for a free connection, `connect_timeout_s` for the server and
    `command_timeout_s` for a reply; a tighter budget is set per call with `asyncio.timeout`. Commands are never
    retried here, because not all of them may run twice. A blocking command (XREAD BLOCK) keeps its connection for
    that long, so give such readers a client of their own. Raises ConfigError for a missing or malformed URL.
    """
    if not url:
        raise ConfigError(f"{purpose}_url: a Redis URL is needed, e.g. STAGEMESH_REDIS_URL=redis://127.0.0.1:6379/0")
    try:
        given = dict(parse_url(url))
    except ValueError as error:
        raise ConfigError(f"{purpose}_url: {error}") from None
    kind = cast("type[Any]", given.pop("connection_class", Connection))
    options: dict[str, Any] = {
        "socket_timeout": command_timeout_s,
        "socket_connect_timeout": connect_timeout_s,
        "health_check_interval": 0,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # the same replies from every server since Redis 2, and no handshake before the first command
        # Naming the library to the server costs two round trips and a search of the installed packages each time.
        "driver_info": None,
        **({} if kind is UnixDomainSocketConnection else {"socket_keepalive": True}),
        **given,
        "decode_responses": False,
    }
    pool = redis.asyncio.BlockingConnectionPool(
        connection_class=CANCELLABLE[kind], max_connections=max_connections, timeout=command_timeout_s, **options
    )
    return redis.asyncio.Redis.from_pool(pool)


async def is_reachable(client: Redis) -> bool:
    """Whether the server answers."""
    try:
        return bool(await client.ping())
    except (RedisError, OSError):
        return False


def as_unavailable(error: Exception, reason: str = "LEDGER_UNAVAILABLE") -> StagemeshError:
    """The typed error for a Redis failure; its text names no address and no command."""
    return Unavailable(reason, f"the ledger cannot be used now ({type(error).__name__})", retry_after_ms=1000)
