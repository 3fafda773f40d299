"""Unary calls to other services: retried within the deadline, and knowing who answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc

from stagemesh.runtime.breaker import Breaker
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.faults import outgoing
from stagemesh.runtime.identity import INSTANCE_KEY, Identity, parse_identity
from stagemesh.runtime.retry import RetryPolicy, call_with_retries

REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
"""What a service says of the request, not of itself."""

FAULTS = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
"""What speaks against a service."""


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
    breaker: Breaker | None = None,
    skips_open: bool = False,
) -> Answer[Response]:
    """Call until it succeeds or the policy or deadline says no. Raises grpc.RpcError or DeadlineExceeded.

    `stages`: those that the call runs, so that the request's faults on purpose go with it. `breaker`: what counts how
    its service does; with `skips_open`, BreakerOpen is raised at once while it is open.
    """

    async def attempt(timeout_s: float) -> tuple[Response, Identity | None]:
        if breaker is not None and skips_open and not breaker.call():
            raise _Skipped
        pending = method(request, timeout=timeout_s, metadata=call_metadata(*outgoing(*stages)))
        try:
            response = await pending
        except grpc.RpcError as error:
            _count(breaker, error)
            raise
        if breaker is not None:
            breaker.succeeded()
        trailing = dict(await pending.trailing_metadata())
        return response, parse_identity(str(trailing.get(INSTANCE_KEY, "")))

    try:
        (response, identity), attempts = await call_with_retries(attempt, policy, deadline, attempt_s)
    except _Skipped:
        raise BreakerOpen from None
    return Answer(response, attempts, identity)


def _count(breaker: Breaker | None, error: grpc.RpcError) -> None:
    if breaker is None:
        return
    if error.code() in FAULTS:
        breaker.failed()
    else:
        breaker.succeeded()
