"""What became of the stored pages that a request was promised: told to the cache service off the caller's path."""

from __future__ import annotations

import asyncio

import grpc

from services.gateway import metrics
from services.gateway.work import Work
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.errors import from_rpc
from stagemesh.runtime.telemetry import get_logger

MAX_PENDING = 500
CALL_TIMEOUT_S = 1.0

log = get_logger(__name__)


class KvReports:
    def __init__(self, cache: cache_pb2_grpc.CacheServiceStub) -> None:
        self._cache = cache
        self._pending: set[asyncio.Task[None]] = set()

    def schedule(self, work: Work) -> None:
        """Count and report a request that an engine has answered. Beyond MAX_PENDING it is only counted."""
        finish = work.outputs[0].finish
        if work.prompt is None or finish is None:
            return
        kv = kv_report(finish, len(work.prompt.token_ids))
        metrics.count_kv(kv, is_session=work.prompt.session_tokens > 0)
        if len(self._pending) >= MAX_PENDING:
            metrics.KV_REPORTS.labels("dropped").inc()
            return
        task = asyncio.create_task(self._send(_release(work, kv)))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def drain(self, grace_s: float) -> None:
        if self._pending:
            await asyncio.wait(self._pending, timeout=grace_s)

    async def _send(self, request: cache_pb2.ReleaseRequest) -> None:
        try:
            await self._cache.Release(request, timeout=CALL_TIMEOUT_S, metadata=call_metadata())
        except grpc.RpcError as error:
            metrics.KV_REPORTS.labels("failed").inc()
            log.warning("use of the cache not reported", error=str(from_rpc(error)))
        else:
            metrics.KV_REPORTS.labels("sent").inc()


def kv_report(finish: engine_pb2.Finish, num_prompt_tokens: int) -> common_pb2.KvReport:
    """What the engine says; one without tiers says only what it reused."""
    if finish.HasField("kv"):
        return finish.kv
    cached = finish.usage.cached_tokens
    return common_pb2.KvReport(pool_tokens=cached, computed_tokens=max(0, num_prompt_tokens - cached))


def _release(work: Work, kv: common_pb2.KvReport) -> cache_pb2.ReleaseRequest:
    prompt, job = work.prompt, work.job
    assert prompt is not None
    use = cache_pb2.CacheUse(
        request_id=job.request_id,
        session_id=job.request.session_id,
        model=prompt.model.model,
        stored_tokens=prompt.lease.kv.stored_tokens,
        lookup_miss=prompt.lease.kv_miss,
        session_tokens=prompt.session_tokens,
        prompt_tokens=len(prompt.token_ids),
        kv=kv,
        engine=prompt.placement.served_by,
    )
    return cache_pb2.ReleaseRequest(tenant_id=job.tenant_id, user_id=job.request.user_id, use=use)
