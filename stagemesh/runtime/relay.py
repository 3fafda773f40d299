"""The relay: publishes what is due in an outbox, again and again until its effect is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.kafka_client import EventProducer
from stagemesh.runtime.outbox import Entry, Outbox
from stagemesh.runtime.retry import RetryPolicy
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

Expired = Callable[[Entry], Awaitable[None]]
"""Settles an entry that has become too old; the relay removes it afterwards."""


@dataclass(frozen=True, kw_only=True)
class RelayConfig:
    republish_after_s: float = 10.0
    """An event whose effect is not confirmed by then is published again; later repeats wait longer."""
    window: int = 256
    """Events published and unconfirmed at a time. Small: priorities decide late, and a broker in memory stays small."""
    poll_interval_s: float = 0.25
    """Pause between looks at the outbox; `wake` ends it early."""
    batch: int = 64
    """Events published at once."""
    is_done_when_published: bool = False
    """Nobody confirms an effect: an event that the broker has taken is removed."""


@dataclass(kw_only=True)
class RelayCounts:
    published: int = 0
    republished: int = 0
    failed: int = 0
    """Attempts that the broker did not take; each is repeated."""
    expired: int = 0


class Relay:
    """One relay in one process; several at once share the work, since claims are atomic in Redis."""

    def __init__(
        self,
        outbox: Outbox,
        producer: EventProducer,
        config: RelayConfig | None = None,
        *,
        expired: Expired | None = None,
    ) -> None:
        self.counts = RelayCounts()
        self._outbox = outbox
        self._producer = producer
        self._config = config or RelayConfig()
        self._expired = expired
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name=f"relay {self._outbox.topic_name}")

    def wake(self) -> None:
        """Look at the outbox now: something was put."""
        self._woken.set()

    async def stop(self) -> None:
        """End the task. What it had claimed and not published is due again after `republish_after_s`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self) -> None:
        """Publish until cancelled; with Redis or the broker away it tries again with back-off."""
        backoff = RetryPolicy(first_backoff_s=self._config.poll_interval_s, max_backoff_s=2.0)
        failures = 0
        while True:
            try:
                progress = await self.publish_due()
                failures = 0
            except StagemeshError as error:
                failures += 1
                progress = False
                if failures == 1:
                    log.warning("outbox waits", topic=self._outbox.topic_name, reason=error.reason)
            except Exception:
                failures += 1
                progress = False
                log.exception("relay failed", topic=self._outbox.topic_name)
            if not progress:
                await self._pause(self._config.poll_interval_s + (backoff.backoff_s(failures) if failures else 0.0))

    async def publish_due(self) -> bool:
        """One round; whether there was something to do. Raises the last error when the broker took nothing."""
        await self._settle_expired()
        entries = await self._outbox.claim_due(
            self._config.batch, self._config.republish_after_s, window=self._config.window
        )
        results = await asyncio.gather(*(self._publish(entry) for entry in entries), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            raise errors[0]
        return bool(entries)

    async def _publish(self, entry: Entry) -> None:
        try:
            await self._producer.send(self._outbox.topic_name, entry.request_id, entry.record)
        except StagemeshError:
            self.counts.failed += 1
            await self._outbox.unclaim(entry)
            raise
        self.counts.published += 1
        self.counts.republished += entry.tries > 1
        if self._config.is_done_when_published:
            await self._outbox.remove(entry.tenant_id, entry.request_id)

    async def _settle_expired(self) -> None:
        for entry in await self._outbox.expired(self._config.batch):
            try:
                if self._expired is not None:
                    await self._expired(entry)
                await self._outbox.remove(entry.tenant_id, entry.request_id)
            except Exception:  # one entry that cannot be settled yet must not hold up the others
                log.exception("expired event not settled", tenant_id=entry.tenant_id, request_id=entry.request_id)
                continue
            self.counts.expired += 1
            log.warning(
                "event expired",
                topic=self._outbox.topic_name,
                tenant_id=entry.tenant_id,
                request_id=entry.request_id,
            )

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()
