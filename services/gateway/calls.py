"""Unary calls to other services: retried within the deadline, and knowing who answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc

from services.gateway.stage_watch import Skips, StageWatch, first_answer
from stagemesh.runtime.breaker import Breaker
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.faults import outgoing
from stagemesh.runtime.identity import INSTANCE_KEY, Identity, parse_identity
from stagemesh.runtime.retry import FAULTS, RetryPolicy, call_with_retries

REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
"""What a service says of the request, not of itself."""


class BreakerOpen(grpc.RpcError):
    """The service is left alone, after failures."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "it has failed repeatedly and is left alone for a moment"


class _Skipped(Exception):
    pass


Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True)
class Answer(Generic[Response]):
    response: Response
    attempts: int
    identity: Identity | None
    """The process that answered, where it says so."""


async def call(
    method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
    request: Request,
    policy: RetryPolicy,
    deadline: Deadline,
    attempt_s: float,
    *,
    stages: Sequence[str] = (),
    watch: StageWatch | None = None,
    skips: Skips = Skips.NEVER,
) -> Answer[Response]:
    """Call until it succeeds or the policy or deadline says no. Raises grpc.RpcError or DeadlineExceeded.

    `stages`: those that the call runs, so that the request's faults on purpose go with it. `watch`: what is known of
    how its service does; BreakerOpen is raised at once where that says what `skips` names.
    """

    async def attempt(timeout_s: float) -> tuple[Response, Identity | None]:
        def start() -> grpc.aio.UnaryUnaryCall[Request, Response]:
            return method(request, timeout=timeout_s, metadata=call_metadata(*outgoing(*stages)))

        if watch is None:
            ended = start()
            await ended
        else:
            if skips.applies_to(watch):
                raise _Skipped
            try:
                ended = await first_answer(start, watch)
            except grpc.RpcError as error:
                _count(watch.breaker, error)
                raise
        trailing = dict(await ended.trailing_metadata())
        return await ended, parse_identity(str(trailing.get(INSTANCE_KEY, "")))

    try:
        (response, identity), attempts = await call_with_retries(attempt, policy, deadline, attempt_s)
    except _Skipped:
        raise BreakerOpen from None
    return Answer(response, attempts, identity)


def _count(breaker: Breaker, error: grpc.RpcError) -> None:
    if error.code() in FAULTS:
        breaker.failed()
    else:
        breaker.succeeded()
