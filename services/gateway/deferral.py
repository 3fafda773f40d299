"""Requests for later: durable in the outbox before the caller hears "deferred", run when a worker asks."""

from __future__ import annotations

import time

from redis.exceptions import RedisError

from services.gateway import metrics
from services.gateway.config import GatewayConfig
from services.gateway.event_store import stream_key
from services.gateway.ledger import Ledger
from services.gateway.work import Work
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import DEFERRED

log = get_logger(__name__)


class Deferral:
    def __init__(self, redis: Redis, ledger: Ledger, outbox: Outbox, config: GatewayConfig) -> None:
        self._redis = redis
        self._ledger = ledger
        self.outbox = outbox
        self._config = config

    async def defer(self, work: Work) -> bool:
        """Make the request durable for later and tell its readers; False when that cannot be promised."""
        job = work.job
        ttl_s = job.request.deferral_ttl_s or self._config.deferred_ttl_s
        expires_s = time.time() + ttl_s
        envelope = new_envelope(DEFERRED, tenant_id=job.tenant_id, request_id=job.request_id)
        envelope.deferred.expires_at.FromSeconds(int(expires_s))
        envelope.deferred.priority = job.request.deferral_priority
        # Stored with the rest, so that the run that comes later counts its events from here.
        event = gateway_pb2.Event(
            seq=work.running.last_seq + 1, queued=gateway_pb2.Queued(request_id=job.request_id, deferred=True)
        )
        try:
            if not await self.outbox.has_room():
                return False
            async with self._redis.pipeline(transaction=True) as pipe:
                await self._ledger.defer(job.tenant_id, job.request_id, expires_s, pipeline=pipe)
                await self.outbox.put(envelope, priority=job.request.deferral_priority, ttl_s=ttl_s, pipeline=pipe)
                stream = stream_key(job.tenant_id, job.request_id)
                pipe.xadd(stream, {"event": event.SerializeToString()}, id=f"{event.seq}-0")
                pipe.expire(stream, self._config.deferred_ttl_s)
                deferred, *_ = await pipe.execute()
        except (RedisError, OSError, TimeoutError, StagemeshError) as error:
            log.warning("not deferred", error=repr(error))
            return False
        if not deferred:  # somebody else owns the request by now
            return False
        work.running.relay(event)
        metrics.DEFERRED.labels(job.route_name).inc()
        log.info("deferred")
        return True

    async def confirm(self, tenant_id: str, request_id: str) -> None:
        """The request is final: no worker needs to hear of it again."""
        try:
            await self.outbox.remove(tenant_id, request_id)
        except StagemeshError as error:  # it is published again, found final, and confirmed then
            log.warning("outbox entry stays", error=str(error))
