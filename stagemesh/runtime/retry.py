"""Retries with a budget: few attempts, full jitter, never past the deadline."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc

from stagemesh.runtime.deadline import Deadline

T = TypeVar("T")

RETRYABLE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED})
"""Codes after which the same call may be repeated: the callee did not take it, or says to try again."""

FAULTS = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
"""What speaks against a service."""


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    max_attempts: int = 3
    first_backoff_s: float = 0.05
    max_backoff_s: float = 1.0
    max_faults: int = 0
    """How many faults of the callee (INTERNAL) are answered with a repeat, perhaps at another replica."""

    def backoff_s(self, attempt: int) -> float:
        """Pause after failed attempt number `attempt` (from 1): exponential with full jitter."""
        return random.uniform(0, min(self.max_backoff_s, self.first_backoff_s * 2 ** (attempt - 1)))


async def call_with_retries(
    call: Callable[[float], Awaitable[T]], policy: RetryPolicy, deadline: Deadline, attempt_s: float | None = None
) -> tuple[T, int]:
    """Run `call(timeout_s)` until it succeeds; give its result and the number of attempts.

    Only for calls that are idempotent. Raises the last grpc.RpcError, or DeadlineExceeded when no
    time is left to begin.
    """
    attempt = num_faults = 0
    while True:
        attempt += 1
        try:
            return await call(deadline.budget_s(attempt_s)), attempt
        except grpc.RpcError as error:
            num_faults += error.code() is grpc.StatusCode.INTERNAL
            is_fault = error.code() is grpc.StatusCode.INTERNAL and num_faults <= policy.max_faults
            timed_out_early = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and attempt_s is not None
            if attempt >= policy.max_attempts or not (error.code() in RETRYABLE or timed_out_early or is_fault):
                raise
            pause_s = policy.backoff_s(attempt)
            if pause_s >= deadline.remaining_s():
                raise
            await asyncio.sleep(pause_s)
