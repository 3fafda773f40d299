"""Alerts of this gateway: put into the outbox, from which a relay publishes them on `stagemesh.alerts.v1`."""

from __future__ import annotations

import asyncio

from services.gateway import metrics
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import ALERTS

MAX_PENDING = 100

log = get_logger(__name__)


class Alerts:
    """What cannot be stored is logged all the same, and counted (`stagemesh_alerts_total`)."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._pending: set[asyncio.Task[None]] = set()

    def raise_alert(self, name: str, tenant_id: str, request_id: str, message: str) -> None:
        """Log and publish an alert about a request; never waits."""
        log.warning("alert", alert=name, tenant_id=tenant_id, request_id=request_id, message=message)
        if len(self._pending) >= MAX_PENDING:
            metrics.ALERTS.labels(name, "dropped").inc()
            return
        task = asyncio.create_task(self._store(name, tenant_id, request_id, message))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def drain(self, grace_s: float) -> None:
        if self._pending:
            await asyncio.wait(self._pending, timeout=grace_s)

    async def _store(self, name: str, tenant_id: str, request_id: str, message: str) -> None:
        envelope = new_envelope(ALERTS, tenant_id=tenant_id, request_id=request_id)
        envelope.alert.name = name
        envelope.alert.message = message
        try:
            stored = await self._outbox.put(envelope)
        except StagemeshError as error:
            log.warning("alert not stored", alert=name, error=str(error))
            stored = False
        metrics.ALERTS.labels(name, "stored" if stored else "dropped").inc()
