"""The `stagemesh` object of a reply: what ran, how long, on what, what was degraded, and whether the text is valid."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.gateway.http.shape import JsonObject
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
MAX_HEADER_CHARS = 512


def extras(finals: Sequence[gateway_pb2.Final]) -> JsonObject:
    """For one request its object; for several the summary over a list of them."""
    objects = [_extras(final) for final in finals]
    if len(objects) == 1:
        return objects[0]
    return {"outcome": outcome_name(worst(finals)), "requests": objects}


def worst(finals: Sequence[gateway_pb2.Final]) -> common_pb2.Outcome.ValueType:
    """The outcome that a caller must know about."""
    return max(final.outcome for final in finals)


def outcome_name(outcome: common_pb2.Outcome.ValueType) -> str:
    return common_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_").lower()


def reply_headers(finals: Sequence[gateway_pb2.Final]) -> dict[str, str]:
    """The outcome, and for a degraded answer where and why."""
    headers = {"x-request-id": finals[0].request_id, "x-stagemesh-outcome": outcome_name(worst(finals))}
    degraded = [
        f"{_stage_name(report.stage)}={reason or 'UNKNOWN'}"
        for final in finals
        for report in final.stages
        if report.status in (common_pb2.STAGE_STATUS_DEGRADED, common_pb2.STAGE_STATUS_FAILED)
        for reason in (report.reason, *report.further_reasons)
    ]
    if degraded:
        headers["x-stagemesh-degraded"] = _UNPRINTABLE.sub("?", ", ".join(degraded))[:MAX_HEADER_CHARS]
    return headers


def usage(finals: Sequence[gateway_pb2.Final]) -> JsonObject:
    """OpenAI's usage object, summed over all requests of a reply."""
    prompt = sum(final.usage.prompt_tokens for final in finals)
    completion = sum(final.usage.completion_tokens for final in finals)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(final.usage.cached_tokens for final in finals)},
    }


def _extras(final: gateway_pb2.Final) -> JsonObject:
    return {
        "request_id": final.request_id,
        "outcome": outcome_name(final.outcome),
        "stages": [_stage(report) for report in final.stages],
        "validation": _validation(final),
        "ttft_ms": final.ttft_us / 1000,
        "total_ms": final.total_us / 1000,
        "session_tokens": final.usage.session_tokens,
        "cut_messages": final.cut_messages,
        "seed": final.seed,
        "model": final.model.model,
        "model_revision": final.model.revision,
        "error": _reason(final),
        "knowledge": _knowledge(final),
        "preferences": [{"id": used.preference_id, "text": used.text} for used in final.preferences],
    }


def _knowledge(final: gateway_pb2.Final) -> JsonObject | None:
    """What of a knowledge base the answer could draw on; None when none was searched."""
    if not final.knowledge:
        return None
    passages = [
        {
            "id": used.passage_id,
            "document": used.document_id,
            "title": used.title,
            "score": used.score,
            "tokens": used.tokens,
            "earlier": used.earlier,
        }
        for used in final.passages
    ]
    return {"name": final.knowledge, "passages": passages}


def _reason(final: gateway_pb2.Final) -> JsonObject | None:
    """Why the outcome is not COMPLETE."""
    if not final.error.reason:
        return None
    return {"reason": final.error.reason, "message": final.error.message}


def _stage(report: common_pb2.StageReport) -> JsonObject:
    return {
        "name": _stage_name(report.stage),
        "status": common_pb2.StageStatus.Name(report.status).removeprefix("STAGE_STATUS_").lower(),
        "duration_ms": report.duration_us / 1000,
        "attempts": report.attempts,
        "instance": report.instance or None,
        "fallback": report.fallback or None,
        "reason": report.reason or None,
        "further_reasons": list(report.further_reasons),
        "layer": report.layer if report.HasField("layer") else None,
        "detail": report.detail or None,
    }


def _stage_name(stage: common_pb2.Stage.ValueType) -> str:
    return common_pb2.Stage.Name(stage).removeprefix("STAGE_").lower()


def _validation(final: gateway_pb2.Final) -> JsonObject | None:
    """Over all choices; None when nothing was to be validated. `valid` is null when nothing is known."""
    checked = [choice for choice in final.choices if choice.HasField("validation")]
    if not checked:
        return None
    unvalidated = any(choice.validation.unvalidated for choice in checked)
    return {
        "valid": None if unvalidated else all(choice.validation.valid for choice in checked),
        "certain": not unvalidated and all(choice.validation.certain for choice in checked),
        "errors": [
            {
                "choice": choice.index,
                "pointer": issue.pointer,
                "rule": issue.rule,
                "message": issue.message,
                "suggestion": issue.suggestion or None,
            }
            for choice in checked
            for issue in choice.validation.issues
        ],
        "corrections": [
            {
                "choice": choice.index,
                "pointer": change.pointer,
                "from": getattr(change, "from"),
                "to": change.to,
                "reason": change.reason,
                "confidence": change.confidence,
                "step": change.step,
                "applied": not change.withheld,
            }
            for choice in checked
            for change in choice.validation.changes
        ],
    }
