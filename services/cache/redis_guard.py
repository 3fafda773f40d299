"""Every call to Redis: within a budget, behind a breaker, bounded in number."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from redis.exceptions import RedisError

from stagemesh.runtime.breaker import Breaker, BreakerConfig
from stagemesh.runtime.errors import StagemeshError, Unavailable
from stagemesh.runtime.telemetry import get_logger

T = TypeVar("T")
log = get_logger(__name__)


@dataclass(frozen=True)
class Words:
    """How a guard speaks of its Redis."""

    name: str = "session store"
    left_alone: str = "CACHE_STORE_UNAVAILABLE"
    """Reason of the error while it is left alone after failures, or too many operations are under way."""
    slow: str = "CACHE_STORE_UNAVAILABLE"
    away: str = "CACHE_STORE_UNAVAILABLE"


SESSION_STORE = Words()


class RedisGuard:
    """Turns a Redis that is away, slow or overloaded into Unavailable, quickly.

    An operation whose caller has gone on is not cancelled: that would cost its connection, so that a Redis whose
    connections take longer than the budget could never be reached. It ends in the background, within `timeout_s`.
    """

    def __init__(
        self, breaker: BreakerConfig, *, timeout_s: float, max_calls: int, words: Words = SESSION_STORE
    ) -> None:
        self._words = words
        self._breaker = Breaker(breaker)
        self._retry_after_ms = max(1, round(breaker.open_s * 1000))
        self._timeout_s = timeout_s
        self._max_calls = max_calls
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def call(self, operation: Coroutine[Any, Any, T], budget_s: float) -> T:
        """The operation's result. Raises Unavailable when there is none within `budget_s`."""
        if self._closed or len(self._running) >= self._max_calls or not self._breaker.call():
            operation.close()
            raise self._unavailable(self._words.left_alone, "is being left alone after failures, or is overloaded")
        task = asyncio.ensure_future(_within(operation, self._timeout_s))
        self._running.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait({task}, timeout=budget_s)
        if not task.done():
            self._failed("no answer in time", budget_ms=round(budget_s * 1000, 1))
            raise self._unavailable(self._words.slow, f"did not answer within {budget_s * 1000:.0f} ms")
        try:
            result = task.result()
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(str(error) or type(error).__name__)
            raise self._unavailable(self._words.away, "cannot be reached or refuses to work") from error
        except StagemeshError:
            self._breaker.succeeded()  # Redis worked; the answer is a refusal
            raise
        self._breaker.succeeded()
        return result

    async def close(self) -> None:
        """End what runs; later calls are refused, so that none opens a connection that nobody closes."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as seen: its caller may have gone on without it

    def _failed(self, problem: str, **facts: object) -> None:
        self._breaker.failed()
        log.warning(f"{self._words.name} failed", problem=problem, breaker=self._breaker.state.value, **facts)

    def _unavailable(self, reason: str, what: str) -> Unavailable:
        return Unavailable(reason, f"the {self._words.name} {what}", retry_after_ms=self._retry_after_ms)


async def _within(operation: Coroutine[Any, Any, T], timeout_s: float) -> T:
    async with asyncio.timeout(timeout_s):
        return await operation
