"""What operators and tenants do with deferred requests: look, have a dead letter run again, give one up."""

from __future__ import annotations

import time
from dataclasses import dataclass

from redis.asyncio import Redis

from services.gateway.event_store import stream_key
from services.gateway.ledger import Ledger
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import Cancelled, Exhausted, NotFound, Precondition, to_detail
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.topics import DEFERRED

DEAD_LETTERED = common_pb2.OUTCOME_DEAD_LETTERED


@dataclass(frozen=True, kw_only=True)
class DeferredEntry:
    tenant_id: str
    request_id: str
    state: str
    """`waiting`, `running` or `dead`."""
    priority: int = 0
    deferred_at_s: float = 0.0
    expires_at_s: float = 0.0
    reason: str = ""
    """Of a dead letter: why."""
    message: str = ""


class DeferredAdmin:
    """All methods raise RedisError, OSError, TimeoutError or Unavailable when the ledger is away."""

    def __init__(self, redis: Redis, ledger: Ledger, outbox: Outbox, *, ttl_s: int) -> None:
        self._redis, self._ledger, self._outbox, self._ttl_s = redis, ledger, outbox, ttl_s

    async def waiting(self, limit: int, tenant_id: str = "") -> list[DeferredEntry]:
        """Those without an outcome, in the order in which they will run; those that run already included. `limit` 0:
        all; `tenant_id`: only this tenant's."""
        found: list[DeferredEntry] = []
        for entry in await self._outbox.list(0, 0 if tenant_id else limit):
            if (tenant_id and entry.tenant_id != tenant_id) or (limit and len(found) == limit):
                continue
            known = await self._ledger.lookup(entry.tenant_id, entry.request_id)
            if known is not None and known.final is None:
                envelope = events_pb2.Envelope.FromString(entry.record)
                state = "waiting" if known.state == "deferred" else "running"
                found.append(_entry(entry.tenant_id, entry.request_id, state, envelope))
        return found

    async def dead(self, limit: int, tenant_id: str = "") -> list[DeferredEntry]:
        """Dead letters that can be run again, the newest first. `limit` 0: all; `tenant_id`: only this tenant's."""
        found: list[DeferredEntry] = []
        for owner, request_id in await self._ledger.dead_letters(0 if tenant_id else limit):
            if (tenant_id and owner != tenant_id) or (limit and len(found) == limit):
                continue
            known = await self._ledger.lookup(owner, request_id)
            if known is not None and known.final is not None:
                error = known.final.error
                found.append(
                    DeferredEntry(
                        tenant_id=owner,
                        request_id=request_id,
                        state="dead",
                        reason=error.reason,
                        message=error.message,
                    )
                )
        return found

    async def find(self, request_id: str, tenant_id: str = "") -> DeferredEntry:
        """The entry of a request, of whichever tenant has it. Raises NotFound; Precondition when several have."""
        entries = [*await self.waiting(0, tenant_id), *await self.dead(0, tenant_id)]
        found = [each for each in entries if each.request_id == request_id]
        if not found:
            raise NotFound("REQUEST_NOT_FOUND", f"no deferred request and no dead letter has the ID {request_id}")
        if len(found) > 1:
            tenants = ", ".join(each.tenant_id for each in found)
            raise Precondition("TENANT_AMBIGUOUS", f"several tenants have a request of this ID: {tenants}; name one")
        return found[0]

    async def request_of(self, entry: DeferredEntry) -> gateway_pb2.InferenceRequest | None:
        """What was asked; None where that is no longer kept."""
        return await self._ledger.request_of(entry.tenant_id, entry.request_id)

    async def retry(self, entry: DeferredEntry) -> None:
        """Have a dead letter run again, as if it had just been deferred. Raises Precondition or Exhausted."""
        request = await self.request_of(entry)
        if entry.state != "dead" or request is None:
            raise Precondition("NOT_DEAD_LETTERED", f"{entry.request_id} is {entry.state}: only dead letters run again")
        if not await self._outbox.has_room():
            raise Exhausted("OUTBOX_FULL", "too many deferred requests wait", retry_after_ms=5_000)
        expires_s = time.time() + self._ttl_s
        envelope = new_envelope(DEFERRED, tenant_id=entry.tenant_id, request_id=entry.request_id)
        envelope.deferred.priority = request.deferral_priority
        envelope.deferred.expires_at.FromSeconds(int(expires_s))
        async with self._redis.pipeline(transaction=True) as pipe:
            await self._ledger.revive(entry.tenant_id, entry.request_id, expires_s, pipeline=pipe)
            await self._outbox.remove(entry.tenant_id, entry.request_id, pipeline=pipe)
            await self._outbox.put(envelope, priority=request.deferral_priority, pipeline=pipe)
            pipe.delete(stream_key(entry.tenant_id, entry.request_id))  # its caller follows a fresh run
            revived, *_ = await pipe.execute()
        if not revived:
            await self._outbox.remove(entry.tenant_id, entry.request_id)
            raise Precondition("NOT_DEAD_LETTERED", f"{entry.request_id} is no dead letter any more")

    async def drop(self, entry: DeferredEntry) -> None:
        """Have a waiting request cancelled, or forget a dead letter. One that runs now goes on to its own end."""
        if entry.state == "dead":
            await self._ledger.forget_dead(entry.tenant_id, entry.request_id)
            await self._outbox.remove(entry.tenant_id, entry.request_id)
            return
        if entry.state == "running":
            await self._ledger.ask_cancel(entry.tenant_id, entry.request_id)
            return
        error = Cancelled("DROPPED", "an operator dropped the deferred request")
        final = gateway_pb2.Final(request_id=entry.request_id, outcome=common_pb2.OUTCOME_CANCELLED)
        final.error.CopyFrom(to_detail(error))
        await self._ledger.finish(entry.tenant_id, final, owned=False)
        await self._outbox.remove(entry.tenant_id, entry.request_id)


def _entry(tenant_id: str, request_id: str, state: str, envelope: events_pb2.Envelope) -> DeferredEntry:
    return DeferredEntry(
        tenant_id=tenant_id,
        request_id=request_id,
        state=state,
        priority=envelope.deferred.priority,
        deferred_at_s=envelope.occurred_at.ToMicroseconds() / 1e6,
        expires_at_s=float(envelope.deferred.expires_at.seconds),
    )
