"""The KV Redis as one thread sees it: every call has a deadline, and after repeated failures it is left alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.retry import Retry

from services.engine.kv.deadline_socket import WITH_DEADLINE, Deadline
from services.engine.kv.miss_cause import MissCause
from stagemesh.runtime.breaker import Breaker, BreakerConfig
from stagemesh.runtime.config import ConfigError

READ_BYTES = 4 * 1024 * 1024
"""What is taken from the socket at once; pages are large."""


class StoreFailed(Exception):
    """A call to the KV Redis came to nothing."""

    def __init__(self, cause: MissCause) -> None:
        super().__init__(cause.value)
        self.cause = cause


class StoreLink:
    """Connects on first use. For one thread, but for `can_call`."""

    def __init__(self, url: str, breaker: BreakerConfig) -> None:
        """Raises ConfigError for a malformed URL."""
        try:
            given = dict(parse_url(url))  # type: ignore[no-untyped-call]  # redis-py gives it no types
        except ValueError as error:
            raise ConfigError(f"kv_url: {error}") from None
        self._deadline = Deadline()
        self._breaker = Breaker(breaker)
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
            "health_check_interval": 0,
            "socket_read_size": READ_BYTES,
            **given,
            "decode_responses": False,
            "deadline": self._deadline,
        }
        kind = WITH_DEADLINE[options.pop("connection_class", Connection)]
        self._client = redis.Redis(connection_pool=redis.ConnectionPool(connection_class=kind, **options))

    def can_call(self) -> bool:
        """Whether a call would be made now. For any thread; it may be outdated when it arrives."""
        return self._breaker.can_call()

    @contextmanager
    def within(self, seconds: float) -> Iterator[redis.Redis]:
        """The client for calls that end within `seconds`. Raises StoreFailed for whatever goes wrong with them."""
        if not self._breaker.call():
            raise StoreFailed(MissCause.STORE_UNAVAILABLE)
        self._deadline.at_s = time.monotonic() + seconds
        try:
            yield self._client
        except OutOfMemoryError:
            self._breaker.succeeded()
            raise StoreFailed(MissCause.STORE_FULL) from None
        except ResponseError:  # it works, and refuses
            self._breaker.succeeded()
            raise StoreFailed(MissCause.STORE_REFUSED) from None
        except (RedisError, OSError) as error:
            self._breaker.failed()
            is_slow = isinstance(error, (TimeoutError, redis.TimeoutError))
            raise StoreFailed(MissCause.STORE_SLOW if is_slow else MissCause.STORE_UNAVAILABLE) from None
        else:
            self._breaker.succeeded()

    def close(self) -> None:
        cast("Any", self._client).close()
