"""Finished turns go to the cache service off the caller's path; the next turn of a session waits for the last one."""

from __future__ import annotations

import asyncio

import grpc

from services.gateway import metrics
from services.gateway.job import Job
from services.gateway.work import Output, Prompt
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import from_rpc
from stagemesh.runtime.retry import RetryPolicy, call_with_retries
from stagemesh.runtime.telemetry import get_logger

COMMIT_WITHIN_S = 15.0
"""A restarted cache service is back by then."""
ATTEMPT_S = 2.0
SETTLE_S = 2.0
MAX_PENDING = 1_000
RETRIES = RetryPolicy(max_attempts=20, first_backoff_s=0.1, max_backoff_s=2.0)

log = get_logger(__name__)


class SessionCommits:
    def __init__(self, cache: cache_pb2_grpc.CacheServiceStub) -> None:
        self._cache = cache
        self._pending: dict[tuple[str, str], asyncio.Task[None]] = {}

    def schedule(self, job: Job, prompt: Prompt, output: Output) -> None:
        """Store the turn. Without an answer of the cache service at its start, nothing is stored: it would be torn."""
        if not job.request.session_id or not prompt.session_known:
            return
        if len(self._pending) >= MAX_PENDING:
            metrics.COMMITS.labels("dropped").inc()
            log.warning("session commit dropped", session_id=job.request.session_id, pending=len(self._pending))
            return
        request = cache_pb2.CommitRequest(
            tenant_id=job.tenant_id,
            session_id=job.request.session_id,
            user_id=job.request.user_id,
            request_id=job.request_id,
            model=prompt.model,
            base_version=prompt.session_version,
            messages=[*prompt.placed.messages, common_pb2.ChatMessage(role="assistant", content=output.text)],
            token_ids=[*prompt.token_ids, *output.token_ids] if output.engine_text else [],
            lease_id=prompt.lease.lease_id,
        )
        key = (job.tenant_id, job.request.session_id)
        task = self._pending[key] = asyncio.create_task(self._commit(request, self._pending.get(key)))
        task.add_done_callback(lambda done: self._pending.pop(key) if self._pending.get(key) is done else None)

    async def settled(self, tenant_id: str, session_id: str) -> None:
        """Wait, within bounds, until the last turn of this session is stored."""
        if (task := self._pending.get((tenant_id, session_id))) is not None:
            await asyncio.wait({task}, timeout=SETTLE_S)

    async def drain(self, grace_s: float) -> None:
        if self._pending:
            await asyncio.wait(set(self._pending.values()), timeout=grace_s)

    async def _commit(self, request: cache_pb2.CommitRequest, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.wait({previous})
        try:
            await call_with_retries(
                lambda timeout_s: self._cache.Commit(request, timeout=timeout_s, metadata=call_metadata()),
                RETRIES,
                Deadline.after(COMMIT_WITHIN_S),
                ATTEMPT_S,
            )
        except grpc.RpcError as error:
            metrics.COMMITS.labels("failed").inc()
            log.warning("session commit failed", session_id=request.session_id, error=str(from_rpc(error)))
        else:
            metrics.COMMITS.labels("stored").inc()
