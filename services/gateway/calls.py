"""Unary calls to other services: retried within the deadline, and knowing who answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc

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
) -> Answer[Response]:
    """Call until it succeeds or the policy or deadline says no. Raises grpc.RpcError or DeadlineExceeded.

    `stages`: those that the call runs, so that the request's faults on purpose go with it.
    """

    async def attempt(timeout_s: float) -> tuple[Response, Identity | None]:
        pending = method(request, timeout=timeout_s, metadata=call_metadata(*outgoing(*stages)))
        response = await pending
        trailing = dict(await pending.trailing_metadata())
        return response, parse_identity(str(trailing.get(INSTANCE_KEY, "")))

    (response, identity), attempts = await call_with_retries(attempt, policy, deadline, attempt_s)
    return Answer(response, attempts, identity)
