"""From the engine's values to protocol messages."""

from __future__ import annotations

from collections.abc import Iterable

from services.engine.healing.degradation import Degradation
from services.engine.kv.counters import KvStats
from services.engine.logprobs import TokenLogprobs
from services.engine.stages import Part
from services.engine.subscriber import News, Refusal
from services.engine.tracked import TrackedDelta
from services.engine.updates import Finished, Load
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import to_detail
from stagemesh.runtime.identity import Identity, process_identity

STAGE_OF_PART = {
    Part.EMBED: common_pb2.STAGE_EMBED,
    Part.ATTEND: common_pb2.STAGE_ATTEND,
    Part.MLP: common_pb2.STAGE_MLP,
    Part.NORM: common_pb2.STAGE_NORM,
    Part.SAMPLE: common_pb2.STAGE_SAMPLE,
}

ADAPTER_LEFT_OUT = "ADAPTER_LEFT_OUT"

IDENTITY = process_identity("engine")


def news_messages(news: News) -> list[engine_pb2.SequenceDelta]:
    """One message for each sequence that has something to say."""
    refusals = [_refusal_message(refusal) for refusal in news.refusals]
    return refusals + [_delta_message(delta) for delta in news.deltas if not delta.is_empty()]


def _delta_message(delta: TrackedDelta) -> engine_pb2.SequenceDelta:
    message = engine_pb2.SequenceDelta(
        sequence_id=delta.sequence_id,
        first_index=delta.first_index,
        token_ids=delta.tokens,
        logprobs=[_logprobs_message(entry) for entry in delta.logprobs],
    )
    if delta.queue is not None:
        message.queue.position = delta.queue.position
        message.queue.estimated_wait_us = int(delta.queue.estimated_wait_s * 1e6)
        message.queue.prefilled_tokens = delta.queue.prefilled_tokens
    message.degraded.extend(_degraded_report(degradation, IDENTITY) for degradation in delta.degradations)
    if delta.finished is not None:
        message.finish.CopyFrom(_finish_message(delta.finished, IDENTITY))
    return message


def _degraded_report(degradation: Degradation, identity: Identity) -> common_pb2.StageReport:
    report = common_pb2.StageReport(
        stage=STAGE_OF_PART[degradation.part],
        attempts=2,
        instance=identity.instance,
        generation=identity.generation,
    )
    _mark_degraded(report, degradation)
    return report


def _mark_degraded(report: common_pb2.StageReport, degradation: Degradation) -> None:
    """The first degradation of a stage is the one that is told."""
    if report.status == common_pb2.STAGE_STATUS_DEGRADED:
        return
    report.status = common_pb2.STAGE_STATUS_DEGRADED
    report.fallback, report.reason = degradation.fallback, degradation.reason
    if degradation.leaves_adapter_out:
        report.fallback, report.reason = f"{degradation.fallback}, without the adapter", ADAPTER_LEFT_OUT
        report.detail = degradation.reason
    if degradation.layer is not None:
        report.layer = degradation.layer


def _refusal_message(refusal: Refusal) -> engine_pb2.SequenceDelta:
    finish = engine_pb2.Finish(reason=common_pb2.FINISH_REASON_ERROR, error=to_detail(refusal.error))
    return engine_pb2.SequenceDelta(sequence_id=refusal.sequence_id, finish=finish)


def load_message(
    load: Load,
    *,
    num_starting: int,
    total_pages: int,
    max_running: int,
    draining: bool,
    kv: KvStats | None = None,
    adapters: Iterable[engine_pb2.Adapter] = (),
    celsius: float | None = None,
) -> engine_pb2.WatchLoadResponse:
    return engine_pb2.WatchLoadResponse(
        instance=IDENTITY.instance,
        generation=IDENTITY.generation,
        running=load.running,
        waiting=load.waiting + num_starting,
        in_flight_tokens=load.in_flight_tokens,
        used_pages=load.used_pages,
        total_pages=total_pages,
        max_running=max_running,
        draining=draining,
        steps=load.steps,
        threads=load.threads,
        idle=load.is_idle,
        kv=None if kv is None else engine_pb2.KvStats(**vars(kv)),
        adapters=adapters,
        device_temperature_c=celsius,
    )


def _logprobs_message(entry: TokenLogprobs) -> common_pb2.TokenLogprobs:
    top = [common_pb2.TopLogprob(token_id=token, logprob=logprob) for token, logprob in entry.top]
    return common_pb2.TokenLogprobs(token_id=entry.token, logprob=entry.logprob, top=top)


def _finish_message(finished: Finished, identity: Identity) -> engine_pb2.Finish:
    ending = finished.ending
    failed = ending.reason == common_pb2.FINISH_REASON_ERROR
    message = engine_pb2.Finish(
        reason=ending.reason,
        stop=ending.stop,
        usage=common_pb2.Usage(
            prompt_tokens=finished.prompt_tokens,
            completion_tokens=finished.completion_tokens,
            cached_tokens=finished.cached_tokens,
            draft_tokens=finished.draft_tokens,
            accepted_tokens=finished.accepted_tokens,
            forwards=finished.forwards,
            forced_tokens=finished.forced_tokens,
        ),
        stages=[
            common_pb2.StageReport(
                stage=STAGE_OF_PART[Part(part)],
                status=common_pb2.STAGE_STATUS_OK if seconds else common_pb2.STAGE_STATUS_SKIPPED,
                attempts=1 if seconds else 0,
                duration_us=int(seconds * 1e6),
                instance=identity.instance,
                generation=identity.generation,
            )
            for part, seconds in enumerate(finished.stage_seconds)
        ],
    )
    for degradation in finished.degradations:
        if message.stages:
            _mark_degraded(message.stages[degradation.part], degradation)
    for report in message.stages:
        report.attempts += min(finished.num_replays, 1) if report.attempts else 0
    if finished.kv is not None:
        message.kv.CopyFrom(finished.kv)
    if failed and message.stages:
        sample = message.stages[Part.SAMPLE]
        sample.status = common_pb2.STAGE_STATUS_FAILED
        sample.reason = ending.error.reason if ending.error else ""
    if ending.stop_token is not None:
        message.stop_token_id = ending.stop_token
    if ending.error is not None:
        message.error.CopyFrom(to_detail(ending.error))
    return message
