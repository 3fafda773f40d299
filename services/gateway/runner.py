"""Works one request from its slot to its final event: every way in which it can end is here."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from services.gateway import metrics, pipeline, stages
from services.gateway.admission import Place, RouteQueue
from services.gateway.commits import SessionCommits
from services.gateway.config import GatewayConfig
from services.gateway.corrections import CorrectionPublisher
from services.gateway.deferral import Deferral
from services.gateway.kv_reports import KvReports
from services.gateway.modes import LIMITED, Modes
from services.gateway.peers import Peers
from services.gateway.rates.guards import Guards
from services.gateway.shadow import ShadowPublisher
from services.gateway.store import GuardedLedger
from services.gateway.traces.record import trace_of
from services.gateway.traces.store import TraceStore
from services.gateway.usage import UsageAccounts
from services.gateway.work import Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime import context
from stagemesh.runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    Exhausted,
    Internal,
    StagemeshError,
    Unavailable,
)
from stagemesh.runtime.telemetry import get_logger

LIMITED_DETAIL = "precise was asked for too often in a row"
ANSWERED = frozenset({common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED})

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Everything that working on a request needs."""

    config: GatewayConfig
    peers: Peers
    ledger: GuardedLedger
    deferral: Deferral
    commits: SessionCommits
    kv_reports: KvReports
    traces: TraceStore
    guards: Guards
    shadow: ShadowPublisher | None
    corrections: CorrectionPublisher
    queues: dict[str, RouteQueue]
    modes: Modes
    usage: UsageAccounts

    async def work(self, work: Work) -> None:
        """Run to the final event. A cancellation that nobody asked for (shutdown) leaves the request to others."""
        context.request_id.set(work.job.request_id)
        context.tenant_id.set(work.job.tenant_id)
        try:
            final = await self._run(work)
        except asyncio.CancelledError:
            if not work.running.cancel_requested:
                raise
            error = Cancelled("CANCELLED", "the request was cancelled")
            final = pipeline.ended(work, common_pb2.OUTCOME_CANCELLED, error)
        if final is None:
            return
        await asyncio.shield(self._end(work, final))

    async def _run(self, work: Work) -> gateway_pb2.Final | None:
        """The final event, or None when the request was deferred."""
        try:
            async with asyncio.timeout(work.deadline.remaining_s()):
                await self._run_in_slot(work)
            return pipeline.complete(work)
        except (TimeoutError, DeadlineExceeded):
            error: StagemeshError = DeadlineExceeded("DEADLINE_EXCEEDED", "the request's deadline has passed")
            return pipeline.ended(work, common_pb2.OUTCOME_EXPIRED, error)
        except StagemeshError as caught:
            if work.has_delivered:
                return pipeline.ended(work, common_pb2.OUTCOME_DEGRADED, caught)
            over = isinstance(caught, Unavailable | Exhausted)
            if over and work.job.request.allow_deferral and await self.deferral.defer(work):
                log.info("not served now", reason=caught.reason, why=caught.message)
                return None
            return pipeline.ended(work, common_pb2.OUTCOME_REJECTED, caught)
        except Exception:
            log.exception("request failed")  # a fault of ours must still reach a final state
            error = Internal("INTERNAL", "an unexpected fault in the gateway; its log has the details")
            return pipeline.ended(work, common_pb2.OUTCOME_DEAD_LETTERED, error)

    async def _run_in_slot(self, work: Work) -> None:
        job = work.job
        started_s = time.monotonic()
        async with self.queues[job.route_name].slot(job.tenant_id, lambda place: _publish_place(work, place)):
            if job.request.session_id:
                await self.commits.settled(job.tenant_id, job.request.session_id)
            waited_us = int((time.monotonic() - started_s) * 1e6)
            work.log_stages.add(
                common_pb2.StageReport(
                    stage=stages.ADMIT, status=common_pb2.STAGE_STATUS_OK, attempts=1, duration_us=waited_us
                )
            )
            if job.mode_limited:
                work.log_stages.degrade(stages.ADMIT, fallback="standard", reason=LIMITED, detail=LIMITED_DETAIL)
            try:
                await pipeline.run(work, self.peers, self.config)
            finally:
                await work.ledger_asked()

    async def _end(self, work: Work, final: gateway_pb2.Final) -> None:
        # Also of work that began without the ledger: a call that was given up may have reached it all the same.
        held = await self.ledger.finish(work.job.tenant_id, final)
        if held is final and final.outcome in ANSWERED and work.prompt is not None:
            self.commits.schedule(work.job, work.prompt, work.outputs[0])
            if self.shadow is not None and not work.job.adapter:  # the candidate is compared with the model alone
                self.shadow.offer(work, final)
            self.corrections.offer(work)
        _count(work, held)
        self.usage.note(work, held)
        self.kv_reports.schedule(work)
        self.traces.offer(work.job.tenant_id, work.job.request.session_id, trace_of(work.job.route_name, held))
        work.running.publish(final=held)
        log.info(
            "request ended",
            outcome=common_pb2.Outcome.Name(held.outcome).removeprefix("OUTCOME_").lower(),
            reason=held.error.reason,
            prompt_tokens=held.usage.prompt_tokens,
            completion_tokens=held.usage.completion_tokens,
            ttft_ms=held.ttft_us / 1000,
            total_ms=held.total_us / 1000,
        )
        if work.job.request.allow_deferral and held.outcome != common_pb2.OUTCOME_DEAD_LETTERED:
            await self.deferral.confirm(
                work.job.tenant_id, work.job.request_id
            )  # of a dead letter a worker tells first


def _publish_place(work: Work, place: Place) -> None:
    work.running.publish(
        queued=gateway_pb2.Queued(
            request_id=work.job.request_id, position=place.position, estimated_wait_ms=place.estimated_wait_ms
        )
    )


def _count(work: Work, final: gateway_pb2.Final) -> None:
    route = work.job.route_name
    outcome = common_pb2.Outcome.Name(final.outcome).removeprefix("OUTCOME_").lower()
    metrics.REQUESTS.labels(route, outcome).inc()
    metrics.DURATION.labels(route).observe(final.total_us / 1e6)
    if final.ttft_us:
        metrics.TTFT.labels(route).observe(final.ttft_us / 1e6)
    if work.was_deferred:
        metrics.DEFERRED_ENDED.labels(outcome).inc()
    for kind, amount in (
        ("prompt", final.usage.prompt_tokens),
        ("completion", final.usage.completion_tokens),
        ("cached", final.usage.cached_tokens),
        ("draft", final.usage.draft_tokens),
        ("accepted", final.usage.accepted_tokens),
        ("forced", final.usage.forced_tokens),
    ):
        metrics.TOKENS.labels(kind).inc(amount)
    metrics.count_outcome(final)
