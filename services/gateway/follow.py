"""Following a request that another gateway (or a later run) works on: its stored events, then its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from services.gateway.event_store import EventStore
from services.gateway.running import RunningRequest
from services.gateway.store import GuardedLedger
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Unavailable

POLL_S = 0.1
MAX_POLL_S = 1.0


class Follower:
    def __init__(self, ledger: GuardedLedger, events: EventStore) -> None:
        self._ledger = ledger
        self._events = events

    async def follow(self, running: RunningRequest, local: Mapping[tuple[str, str], RunningRequest]) -> None:
        """Relay events into `running` until the request is final; the caller bounds the time by cancelling.

        With the ledger away it waits for its return: the request is not lost, only out of sight.
        """
        last_seq, pause_s = running.last_seq, POLL_S
        while not running.done:
            here = local.get((running.tenant_id, running.request_id))
            if here is not None:
                async for event in here.events(last_seq):
                    running.relay(event)
                    last_seq = event.seq
                continue
            try:
                moved = await self._relay_stored(running, last_seq)
                if not moved:
                    await self._relay_outcome(running)
            except Unavailable:
                moved = 0
            last_seq = max(last_seq, moved)
            pause_s = POLL_S if moved else min(MAX_POLL_S, pause_s * 1.5)
            if not running.done:
                await asyncio.sleep(pause_s)

    async def _relay_stored(self, running: RunningRequest, last_seq: int) -> int:
        events = await self._ledger.call(self._events.read(running.tenant_id, running.request_id, last_seq))
        for event in events:
            running.relay(event)
        return events[-1].seq if events else 0

    async def _relay_outcome(self, running: RunningRequest) -> None:
        entry = await self._ledger.call(self._ledger.ledger.lookup(running.tenant_id, running.request_id))
        if entry is None:
            running.publish(final=_unknown(running))
        elif entry.final is not None:
            running.publish(final=entry.final)


def _unknown(running: RunningRequest) -> gateway_pb2.Final:
    """The ledger lost the entry (its time to live, or a crash before it was durable)."""
    return gateway_pb2.Final(
        request_id=running.request_id,
        outcome=common_pb2.OUTCOME_DEAD_LETTERED,
        error=common_pb2.ErrorDetail(code=5, reason="REQUEST_NOT_FOUND", message="the ledger no longer knows it"),
    )
