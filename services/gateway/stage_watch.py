"""What is known of a stage that runs elsewhere, and what a call does that is kept waiting by it.

A call that takes longer than the stage's patience is sent once more, to whichever replica is next; the first answer
counts. Beside it the stage is asked for a little work. Where that is not answered either, the stage is silent: its
breaker opens at once, for all who wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

import grpc

from services.gateway import metrics
from services.gateway.patience import Patience
from services.gateway.pulse import Pulse
from stagemesh.runtime.breaker import Breaker, State
from stagemesh.runtime.telemetry import get_logger

MAX_HEDGES = 5.0
HEDGES_PER_CALL = 0.1
"""So a stage that is slow for all gets a tenth more calls at most, and not twice as many."""

Request = TypeVar("Request")
Response = TypeVar("Response")
Call = grpc.aio.UnaryUnaryCall

log = get_logger(__name__)


class StageSilent(grpc.RpcError):
    """The stage does not answer anybody."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "it answers nobody at the moment"


class Skips(Enum):
    """When a call is not even tried, since its fallback is as good."""

    NEVER = "never"
    SILENT = "silent"
    """While the stage is known to answer nobody."""
    OPEN = "open"
    """While its breaker is open, for whichever reason."""

    def applies_to(self, watch: StageWatch) -> bool:
        """Whether a call is skipped now; else it has the breaker's permission."""
        return (self is Skips.OPEN and not watch.breaker.call()) or (self is Skips.SILENT and watch.is_silent)


@dataclass
class StageWatch:
    stage: str
    breaker: Breaker
    patience: Patience
    pulse: Pulse | None = None
    """None: its calls have budgets too short for a look."""
    _hedges: float = MAX_HEDGES
    _is_tripped: bool = field(default=False, init=False)

    @property
    def is_silent(self) -> bool:
        """Whether it was found silent and has not been taken back."""
        return self._is_tripped and self.breaker.state is not State.CLOSED

    def answered(self, seconds: float) -> None:
        """A call came back after `seconds`."""
        self.breaker.succeeded()
        self.patience.took(seconds)
        if self.pulse is not None:
            self.pulse.heard()

    def trip(self) -> None:
        """It is silent."""
        if not self.is_silent:
            log.warning("stage is silent", stage=self.stage)
            metrics.STAGES_SILENT.labels(self.stage).inc()
        self._is_tripped = True
        self.breaker.trip()

    def take_hedge(self) -> bool:
        """Whether one call may be sent twice."""
        if self._hedges < 1:
            return False
        self._hedges -= 1
        metrics.HEDGES.labels(self.stage).inc()
        return True

    def earn_hedge(self) -> None:
        self._hedges = min(MAX_HEDGES, self._hedges + HEDGES_PER_CALL)


async def first_answer(start: Callable[[], Call[Request, Response]], watch: StageWatch) -> Call[Request, Response]:
    """The call that answered first of those that were begun. Raises grpc.RpcError; StageSilent where nobody is
    answered."""
    watch.earn_hedge()
    calls = {asyncio.create_task(_ended(start()))}
    pulse: asyncio.Future[bool] | None = None
    try:
        done, _ = await asyncio.wait(calls, timeout=watch.patience.seconds)
        if not done and watch.pulse is not None:
            if watch.is_silent:
                raise StageSilent
            pulse = asyncio.ensure_future(watch.pulse.feel())
            if watch.take_hedge():
                calls.add(asyncio.create_task(_ended(start())))
        ended = await _first(calls, pulse, watch)
    finally:
        begun = [task for task in (*calls, pulse) if task is not None]
        for task in begun:
            task.cancel()
        if len(begun) > 1 or not begun[0].done():
            await asyncio.gather(*begun, return_exceptions=True)
    watch.answered(ended.seconds)
    return ended.call


async def _first(
    calls: set[asyncio.Task[_Ended[Request, Response]]], pulse: asyncio.Future[bool] | None, watch: StageWatch
) -> _Ended[Request, Response]:
    pending = set(calls)
    while True:
        waits: set[asyncio.Future[Any]] = {*pending, *((pulse,) if pulse is not None else ())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in [each for each in pending if each.done()]:
            pending.discard(task)
            error = task.exception()
            if error is None:
                return task.result()
            is_over = isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            if not pending or is_over:
                raise error
        if pulse is not None and pulse.done():
            if not pulse.result():
                watch.trip()
                raise StageSilent
            pulse = None


@dataclass(frozen=True)
class _Ended(Generic[Request, Response]):
    call: Call[Request, Response]
    seconds: float
    """Its own, not those of a call that it was to replace: patience must not grow by waiting."""


async def _ended(call: Call[Request, Response]) -> _Ended[Request, Response]:
    started_s = time.monotonic()
    await call
    return _Ended(call, time.monotonic() - started_s)
