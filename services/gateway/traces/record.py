"""What is remembered of an ended request, so that it can be taken apart by stage afterwards. No text, no user."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

LENGTH_CLASSES = ((128, "0-128"), (1_024, "128-1024"), (8_192, "1024-8192"))
ABOVE = "above 8192"
LENGTH_NAMES = (*(name for _, name in LENGTH_CLASSES), ABOVE)


@dataclass(frozen=True, kw_only=True)
class StageTrace:
    stage: str
    status: str
    duration_us: int
    attempts: int = 1
    instance: str = ""
    fallback: str = ""
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class RequestTrace:
    request_id: str
    at_s: float
    """Unix time of its end."""
    route: str
    length_class: str
    outcome: str
    reason: str
    total_us: int
    ttft_us: int
    prompt_tokens: int
    completion_tokens: int
    stages: tuple[StageTrace, ...]
    """Those that ran, in order."""


def length_class(prompt_tokens: int) -> str:
    """`128-1024` for 500: the buckets of the length of prompts."""
    return next((name for most, name in LENGTH_CLASSES if prompt_tokens <= most), ABOVE)


def trace_of(route: str, final: gateway_pb2.Final) -> RequestTrace:
    """The trace of a request that has ended now."""
    return RequestTrace(
        request_id=final.request_id,
        at_s=round(time.time(), 3),
        route=route,
        length_class=length_class(final.usage.prompt_tokens),
        outcome=common_pb2.Outcome.Name(final.outcome).removeprefix("OUTCOME_").lower(),
        reason=final.error.reason,
        total_us=final.total_us,
        ttft_us=final.ttft_us,
        prompt_tokens=final.usage.prompt_tokens,
        completion_tokens=final.usage.completion_tokens,
        stages=tuple(_stage(report) for report in final.stages if report.status != common_pb2.STAGE_STATUS_SKIPPED),
    )


def _stage(report: common_pb2.StageReport) -> StageTrace:
    return StageTrace(
        stage=common_pb2.Stage.Name(report.stage).removeprefix("STAGE_").lower(),
        status=common_pb2.StageStatus.Name(report.status).removeprefix("STAGE_STATUS_").lower(),
        duration_us=report.duration_us,
        attempts=report.attempts,
        instance=report.instance,
        fallback=report.fallback,
        reason=report.reason,
        detail=report.detail[:200],
    )


def to_bytes(trace: RequestTrace) -> bytes:
    return json.dumps(asdict(trace), separators=(",", ":")).encode()


def from_bytes(stored: bytes) -> RequestTrace | None:
    """None for what another version wrote."""
    try:
        fields = json.loads(stored)
        stages = tuple(StageTrace(**stage) for stage in fields.pop("stages"))
        return RequestTrace(**fields, stages=stages)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
