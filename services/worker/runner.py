"""One deferred event → one run through the gateway, or a dead letter."""

from __future__ import annotations

from services.worker.gateway_client import GatewayClient
from services.worker.waiting import WaitBudget
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    Exhausted,
    Internal,
    NotFound,
    StagemeshError,
    Unavailable,
    to_detail,
)
from stagemesh.runtime.kafka_client import EventProducer
from stagemesh.runtime.kafka_consumer import TryLater
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import DEFERRED_DEAD

MORE_URGENT_FIRST = "MORE_URGENT_FIRST"
"""The gateway ran a request that goes before this one: ask again at once."""
WORTH_WAITING = (Unavailable, Exhausted)
"""Refusals that say: not now. They use up the budget of waiting, not the attempts."""
WORTH_REPEATING = (*WORTH_WAITING, Internal, DeadlineExceeded, Cancelled)
"""Failures after which another run may end well. Every other error of the gateway is the request's outcome."""

log = get_logger(__name__)


class DeferredRunner:
    def __init__(self, gateway: GatewayClient, producer: EventProducer, dead_topic: str, budget: WaitBudget) -> None:
        self._gateway, self._producer, self._budget = gateway, producer, budget
        self._dead_topic = dead_topic

    async def handle(self, envelope: events_pb2.Envelope, attempt: int) -> None:
        """Run the request; done when the gateway has a final outcome for it, whoever brought that about."""
        tenant_id, request_id = envelope.tenant_id, envelope.request_id
        try:
            final = await self._gateway.run(tenant_id, request_id)
        except NotFound:  # its ledger entry has gone after the outcome's time to live
            log.info("deferred request unknown", request_id=request_id)
        except WORTH_WAITING as error:
            if error.reason == MORE_URGENT_FIRST:
                raise TryLater(error.reason, 0.0, backs_off=False) from error
            if not self._budget.can_wait(tenant_id, request_id):
                raise
            raise TryLater(error.reason, error.retry_after_ms / 1000) from error
        except WORTH_REPEATING:
            raise
        except StagemeshError as error:
            await self.give_up(envelope, attempt, error)
        else:
            log.info("deferred request done", request_id=request_id, outcome=common_pb2.Outcome.Name(final.outcome))
            await self._report_death(envelope, final, attempt)
        self._budget.forget(tenant_id, request_id)

    async def give_up(self, envelope: events_pb2.Envelope, attempts: int, error: Exception) -> None:
        """Dead-letter the request in the ledger, unless it has ended otherwise, and tell the operator why."""
        tenant_id, request_id = envelope.tenant_id, envelope.request_id
        known = error if isinstance(error, StagemeshError) else Internal("WORKER_FAILED", "the worker failed")
        log.warning("deferred request given up", request_id=request_id, attempts=attempts, reason=known.reason)
        try:
            final = await self._gateway.give_up(tenant_id, request_id)
        except NotFound:
            log.info("deferred request unknown", request_id=request_id)
        else:
            final.error.CopyFrom(to_detail(known))
            await self._report_death(envelope, final, attempts)
        self._budget.forget(tenant_id, request_id)

    async def _report_death(self, envelope: events_pb2.Envelope, final: gateway_pb2.Final, attempts: int) -> None:
        """Publish a dead letter if that is the outcome. After a crash it may be published twice, never not at all."""
        if final.outcome != common_pb2.OUTCOME_DEAD_LETTERED:
            return
        letter = new_envelope(DEFERRED_DEAD, tenant_id=envelope.tenant_id, request_id=envelope.request_id)
        letter.dead_letter.error.CopyFrom(final.error)
        letter.dead_letter.attempts = attempts
        await self._producer.send(self._dead_topic, envelope.request_id, letter.SerializeToString())
