"""A copy of each answered request for the differ, without the caller ever waiting for it."""

from __future__ import annotations

import asyncio

from services.gateway import metrics
from services.gateway.work import Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import ANSWERS_STABLE

RETRY_S = 0.5

log = get_logger(__name__)


class ShadowPublisher:
    """Bounded buffer → durable outbox. What is dropped is counted (`stagemesh_shadow_events_total`)."""

    def __init__(self, outbox: Outbox, *, max_buffered: int) -> None:
        self._outbox = outbox
        self._buffer: asyncio.Queue[events_pb2.Envelope] = asyncio.Queue(max_buffered)
        self._task = asyncio.create_task(self._keep_storing(), name="shadow-publisher")

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
        try:
            self._buffer.put_nowait(envelope)
        except asyncio.QueueFull:
            metrics.SHADOW_EVENTS.labels("dropped").inc()

    async def close(self, grace_s: float) -> None:
        """Store what is buffered within the grace; the rest is counted as dropped."""
        try:
            async with asyncio.timeout(grace_s):
                await self._buffer.join()
        except TimeoutError:
            metrics.SHADOW_EVENTS.labels("dropped").inc(self._buffer.qsize())
            log.warning("shadow events dropped", num_events=self._buffer.qsize())
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_storing(self) -> None:
        while True:
            envelope = await self._buffer.get()
            await self._store(envelope)
            self._buffer.task_done()

    async def _store(self, envelope: events_pb2.Envelope) -> None:
        while True:
            try:
                stored = await self._outbox.put(envelope)
            except StagemeshError as error:
                log.warning("shadow event waits", error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            metrics.SHADOW_EVENTS.labels("stored" if stored else "dropped").inc()
            return
