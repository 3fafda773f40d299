"""Erases what the ledger keeps of a user's or a session's requests: outcomes, events, dead letters, traces."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.gateway import known_requests
from services.gateway.known_requests import hash_of
from services.gateway.ledger import Ledger
from services.gateway.traces.store import TraceStore
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Cancelled, Unavailable, to_detail
from stagemesh.runtime.outbox import Outbox


class RequestErasure:
    def __init__(self, redis: Redis, ledger: Ledger, outbox: Outbox, traces: TraceStore) -> None:
        """`outbox`: that of deferred requests."""
        self._redis, self._ledger, self._outbox, self._traces = redis, ledger, outbox, traces

    async def erase(self, tenant_id: str, *, user_id: str = "", session_id: str = "") -> list[str]:
        """Erase one of the two; gives the IDs of the requests. One that waits is cancelled, one that runs goes on to
        its end, of which little is kept then. Raises Unavailable: ask again then, what is gone stays gone."""
        of_user = bool(user_id)
        key = (
            known_requests.user_key(tenant_id, user_id)
            if of_user
            else known_requests.session_key(tenant_id, hash_of(session_id))
        )
        try:
            known = await known_requests.read(self._redis, key)
            for request_id, _ in known:
                await self._erase(tenant_id, request_id)
            request_ids = {request_id for request_id, _ in known}
            sessions = {session for _, session in known if session} if of_user else {hash_of(session_id)}
            await self._traces.forget(tenant_id, request_ids, sessions)
            of_sessions = [known_requests.session_key(tenant_id, session) for session in sessions]
            await self._redis.delete(key, *of_sessions)
        except (RedisError, OSError, TimeoutError) as error:
            raise Unavailable(
                "LEDGER_UNAVAILABLE", "the ledger is away: not all is erased, ask again", retry_after_ms=1_000
            ) from error
        return [request_id for request_id, _ in known]

    async def _erase(self, tenant_id: str, request_id: str) -> None:
        state = await self._ledger.erase(tenant_id, request_id)
        if state == "deferred":
            final = gateway_pb2.Final(request_id=request_id, outcome=common_pb2.OUTCOME_CANCELLED)
            final.error.CopyFrom(to_detail(Cancelled("CANCELLED", "its user or session was erased before it ran")))
            await self._ledger.finish(tenant_id, final, owned=False)
        if state != "running":
            await self._outbox.remove(tenant_id, request_id)
