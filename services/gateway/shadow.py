"""A copy of each answered request for the differ, without the caller ever waiting for it."""

from __future__ import annotations

from services.gateway import metrics
from services.gateway.event_buffer import EventBuffer
from services.gateway.work import Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.topics import ANSWERS_STABLE


class ShadowPublisher:
    """Bounded buffer → durable outbox. What is dropped is counted (`stagemesh_shadow_events_total`)."""

    def __init__(self, outbox: Outbox, *, max_buffered: int) -> None:
        self._outbox = outbox
        self._buffer = EventBuffer("shadow events", self._store, metrics.SHADOW_EVENTS, max_buffered=max_buffered)

    def offer(self, work: Work, final: gateway_pb2.Final) -> None:
        """Take a copy of an answer; never waits."""
        assert work.prompt is not None
        envelope = new_envelope(ANSWERS_STABLE, tenant_id=work.job.tenant_id, request_id=work.job.request_id)
        envelope.answer.request.CopyFrom(work.job.request)
        if work.prompt.placed.adds:  # the candidate gets the passages that this answer was made from
            envelope.answer.request.chat.CopyFrom(common_pb2.ChatMessages(messages=work.prompt.placed.messages))
        envelope.answer.final.CopyFrom(final)
        envelope.answer.prompt_token_ids.extend(work.prompt.token_ids)
        envelope.answer.output_token_ids.extend(work.outputs[0].token_ids)
        self._buffer.offer(envelope)

    async def close(self, grace_s: float) -> None:
        """Store what is buffered within the grace; the rest is counted as dropped."""
        await self._buffer.close(grace_s)

    async def _store(self, envelope: events_pb2.Envelope) -> str:
        return "stored" if await self._outbox.put(envelope) else "dropped"
