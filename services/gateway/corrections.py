"""Texts that failed their verdict, and what became of them, for the training of correction adapters.

Only of tenants that share them (`stagemesh tenant corrections`). No caller waits for it; erasures wait until they are
stored, since whoever asks for one must know that it will be done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import uuid_utils

from services.gateway import metrics
from services.gateway.event_buffer import EventBuffer
from services.gateway.work import Work
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import Exhausted, Unavailable
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.topics import CORRECTIONS, MAX_RECORD_BYTES

MAX_BUFFERED = 256
FRESH_S = 5.0
"""How long the list of those who share is used without asking again."""
ERASE_S = 5.0
"""What an erasure waits for corrections that are being stored."""


class CorrectionPublisher:
    """Bounded buffer → durable outbox. What is dropped is counted (`stagemesh_correction_events_total`)."""

    def __init__(self, outbox: Outbox, sharing: Callable[[], Awaitable[frozenset[str]]]) -> None:
        """`sharing()`: the tenants that share; may raise RedisError, OSError."""
        self._outbox = outbox
        self._sharing = sharing
        self._shared: frozenset[str] = frozenset()
        self._asked_at_s = float("-inf")
        self._buffer = EventBuffer(
            "correction events", self._store, metrics.CORRECTION_EVENTS, max_buffered=MAX_BUFFERED
        )

    def offer(self, work: Work) -> None:
        """The corrections of an ended request; never waits."""
        asked = work.job.request
        for output in work.outputs:
            if output.correction is not None:
                self.offer_pair(*output.correction, user_id=asked.user_id, session_id=asked.session_id)

    def offer_pair(
        self,
        request: corrector_pb2.CorrectRequest,
        correction: corrector_pb2.CorrectResponse,
        *,
        user_id: str = "",
        session_id: str = "",
    ) -> None:
        """One correction; never waits."""
        envelope = new_envelope(CORRECTIONS, tenant_id=request.tenant_id, request_id=str(uuid_utils.uuid7()))
        envelope.correction.request.CopyFrom(request)
        envelope.correction.correction.CopyFrom(correction)
        envelope.correction.user_id, envelope.correction.session_id = user_id, session_id
        if envelope.ByteSize() > MAX_RECORD_BYTES:
            metrics.CORRECTION_EVENTS.labels("too-large").inc()
            return
        self._buffer.offer(envelope)

    async def erase(self, tenant_id: str, *, user_id: str = "", session_id: str = "") -> None:
        """Have forgotten what was collected of a user or a session. Raises Unavailable, Exhausted: ask again then."""
        try:
            async with asyncio.timeout(ERASE_S):
                await self._buffer.stored()  # an erasure comes after what it erases
        except TimeoutError:
            raise Unavailable("LEDGER_UNAVAILABLE", "collected corrections cannot be erased now") from None
        envelope = new_envelope(CORRECTIONS, tenant_id=tenant_id, request_id=str(uuid_utils.uuid7()))
        if user_id:
            envelope.user_erased.user_id = user_id
        else:
            envelope.user_erased.session_id = session_id
        if not await self._outbox.put(envelope):
            raise Exhausted(
                "OUTBOX_FULL", "the erasure cannot be stored for collected corrections", retry_after_ms=5000
            )

    async def close(self, grace_s: float) -> None:
        """Store what is buffered within the grace; the rest is counted as dropped."""
        await self._buffer.close(grace_s)

    async def _store(self, envelope: events_pb2.Envelope) -> str:
        if envelope.tenant_id not in await self._who_shares():
            return "not-shared"
        return "stored" if await self._outbox.put(envelope) else "dropped"

    async def _who_shares(self) -> frozenset[str]:
        if time.monotonic() - self._asked_at_s > FRESH_S:
            self._shared = await self._sharing()
            self._asked_at_s = time.monotonic()
        return self._shared
